//! Forwards stored events to a program on this machine, for `listen` and `send --event`.

mod address;
mod post;
mod signing;
mod stored;

pub(crate) use address::{Address, ELSEWHERE};
pub(crate) use post::{Answer, Forwarder, NoAnswer};
pub(crate) use signing::{Signing, scheme_of};
pub(crate) use stored::{Missing, Stored};
