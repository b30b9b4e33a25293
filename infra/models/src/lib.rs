#![doc = include_str!("../README.md")]

pub mod case;
pub mod checker;
pub mod inbox;
pub mod property;
pub mod report;

use case::Case;

/// Every case of every model.
pub fn cases() -> Vec<Case> {
    inbox::cases()
}
