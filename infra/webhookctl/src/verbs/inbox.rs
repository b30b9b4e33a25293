//! `inbox`: stored events.

mod body;
mod diff;
mod export;
mod inspect;
mod list;
mod tail;

use super::view;

pub(super) use crate::selection::{find_one as find, known_sources};
pub(super) use body::body;
pub(super) use diff::diff;
pub(super) use export::export;
pub(super) use inspect::inspect;
pub(super) use list::list;
pub(super) use tail::tail;
