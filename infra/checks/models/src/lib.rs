//! Models of the protocol as explicit states. `infra/checks/README.md` says what each contains, and
//! how to read a line of their output.

pub mod budget;
pub mod case;
pub mod checker;
pub mod cursor;
pub mod inbox;
pub mod lease;
pub mod order;
pub mod property;
pub mod report;
pub mod shard;
pub mod signature;
pub mod spill;

use case::Case;

/// All cases of all models.
pub fn cases() -> Vec<Case> {
    [
        inbox::cases(),
        cursor::cases(),
        order::cases(),
        spill::cases(),
        lease::cases(),
        budget::cases(),
        shard::cases(),
        signature::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
