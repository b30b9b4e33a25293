//! Runs the real functions on the local stack, and counts everything that AWS would bill.

mod destination;
pub mod machine;
mod proxy;
mod rows;
mod run;
mod stand;
pub mod webhook;

pub use rows::{Kept, Rows};
pub use run::{Case, Counted, Rest, count, rest};
pub use stand::{Around, Stand};
pub use webhook::Shape;
