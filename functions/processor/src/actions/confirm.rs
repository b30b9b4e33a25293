//! Confirms a subscription that a verified event asks to confirm.

use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;

use super::Work;

/// Names the effect in the ledger.
const NAME: &str = "confirm";

impl Work<'_> {
    /// Visits the URL by which the subscription is confirmed. Whoever visits it twice has
    /// confirmed it once.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_ConfirmSubscription.html>
    pub(crate) async fn confirm(&self, url: &str) -> Outcome {
        self.effects
            .keyed(NAME, async |_: &str| {
                let answer = self.outbound.get(url, &[], &[], (self.clock)()).await;
                match self.effect(answer) {
                    Effect::Done { .. } => Effect::Done {
                        note: "subscription confirmed".to_owned(),
                    },
                    other => other,
                }
            })
            .await
    }
}
