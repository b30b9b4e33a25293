//! The real functions at work on the local stack, and everything that AWS would bill on the way.

mod destination;
mod machine;
mod proxy;
mod rows;
mod run;
mod stand;
mod webhook;

pub use rows::{Kept, Rows};
pub use run::{Case, Counted, Rest, count, rest};
pub use stand::{Around, Stand};
pub use webhook::Shape;
