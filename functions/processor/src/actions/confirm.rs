//! Confirms a subscription when a verified event asks for it.

use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;

use super::Work;

/// The name of the effect in the ledger.
const NAME: &str = "confirm";

impl Work<'_> {
    /// Requests the URL that confirms the subscription. Repeating the request changes nothing.
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
