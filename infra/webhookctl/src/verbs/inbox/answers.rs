//! Reads the answers of destinations to the attempts of an event.

use shared::base::clock::UnixMillis;
use shared::delivery::answers::Answers;
use shared::inbox::ledger::Row;

use crate::inspect::Answer;
use crate::target::Deployment;

/// Returns the answers to the newest attempts of the current run. `reveal` also returns their texts.
pub(in crate::verbs) async fn answers(
    inbox: &Deployment,
    row: &Row,
    reveal: bool,
) -> anyhow::Result<Vec<Answer>> {
    let kept = Answers::beside(&inbox.ledger);
    let kept = kept.of(row, UnixMillis::now()).await?;
    Ok(kept
        .into_iter()
        .map(|answer| Answer::of(answer, reveal))
        .collect())
}
