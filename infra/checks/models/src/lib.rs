//! Models of the protocol that list every state explicitly. `infra/checks/README.md` explains what
//! each model contains, and how to read a line of the output.

pub mod agents;
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
pub mod trial;

use case::Case;

/// Returns all cases of all models.
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
        trial::cases(),
        agents::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
