//! Rotations while requests arrive: the catcher rejects no request that is signed with a valid
//! secret.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use local::Options;
use shared::aws::secrets::{REREAD, Secret, Secrets};

use super::support::{Inbox, headers, hex, options, unique};

/// The number of sources that are rotated in parallel, each twice.
const SOURCES: usize = 10;
const ROUNDS: usize = 2;

/// A provider, and the newest secret that it has.
struct Provider {
    source: String,
    secret: String,
}

impl Provider {
    async fn send(&self, inbox: &Inbox, secret: &str) -> u16 {
        let body = format!(r#"{{"word":"{}"}}"#, unique());
        let signature = hex(secret.as_bytes(), &[body.as_bytes()]);
        let headers = headers(&[
            ("content-type", "application/json"),
            ("x-github-delivery", &unique()),
            ("x-github-event", "push"),
            ("x-hub-signature-256", &format!("sha256={signature}")),
        ]);
        inbox
            .post(&self.source, &headers, body.as_bytes())
            .await
            .status
    }

    /// Sends requests until the end: with the old secret and, once the provider has it, also with
    /// the new one.
    async fn send_until(&self, inbox: &Inbox, new: &str, round: &Round, answers: &Answers) {
        while !round.ended.load(Ordering::SeqCst) {
            // For some time after the switch, requests are still signed with the old secret:
            // requests in transit, and retries.
            let old = self.send(inbox, &self.secret).await;
            let mut statuses = vec![old];
            if round.switched.load(Ordering::SeqCst) {
                statuses.push(self.send(inbox, new).await);
            }
            for status in statuses {
                answers.sent.fetch_add(1, Ordering::SeqCst);
                if status != 200 {
                    answers.wrong.fetch_add(1, Ordering::SeqCst);
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The progress of a rotation.
#[derive(Default)]
struct Round {
    switched: AtomicBool,
    ended: AtomicBool,
}

#[derive(Default)]
struct Answers {
    sent: AtomicU64,
    wrong: AtomicU64,
}

fn sources() -> String {
    let source = |n| {
        format!(
            "[[source]]\nname = \"rotated-{n}\"\npreset = \"github\"\n\
             action = [{{ kind = \"keep\" }}]\n"
        )
    };
    format!(
        "schema = 1\n{}",
        (0..SOURCES).map(source).collect::<String>()
    )
}

#[tokio::test]
async fn twenty_rotations_refuse_nothing_that_is_signed_with_a_live_secret() {
    let folder = std::env::temp_dir().join(format!("mitt-rotation-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sources.toml");
    std::fs::write(&file, sources()).unwrap();
    let inbox = Inbox::start(Options {
        sources_file: Some(file),
        max_processes: 4,
        ..options()
    })
    .await;
    let path = inbox.stack.secrets_path("Catcher").unwrap().to_owned();
    let store = Secrets::new(inbox.stack.clients().ssm, path);
    let mut providers = Vec::new();
    for n in 0..SOURCES {
        let provider = Provider {
            source: format!("rotated-{n}"),
            secret: unique(),
        };
        let first = Secret::new("first", &provider.secret);
        assert!(store.put(&provider.source, "v1", &first).await.unwrap());
        providers.push(provider);
    }

    let answers = Answers::default();
    for round in 0..ROUNDS {
        let news: Vec<String> = providers.iter().map(|_| unique()).collect();
        let progress = Round::default();
        let traffic = providers.iter().zip(&news);
        let traffic =
            traffic.map(|(provider, new)| provider.send_until(&inbox, new, &progress, &answers));
        let rotate = async {
            for (provider, new) in providers.iter().zip(&news) {
                let slot = format!("v{}", round + 2);
                let new = Secret::new("new", new);
                assert!(store.put(&provider.source, &slot, &new).await.unwrap());
            }
            // The command tells the operator to wait this long before the provider gets the secret.
            tokio::time::sleep(REREAD + Duration::from_secs(1)).await;
            progress.switched.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(2)).await;
            progress.ended.store(true, Ordering::SeqCst);
        };
        futures::join!(join_all(traffic), rotate);
        for (provider, new) in providers.iter_mut().zip(news) {
            let slot = format!("v{}", round + 1);
            store.delete(&provider.source, &slot).await.unwrap();
            provider.secret = new;
        }
    }
    let (sent, wrong) = (answers.sent.into_inner(), answers.wrong.into_inner());
    assert!(sent > 1_000, "{sent} requests are too few");
    assert_eq!(wrong, 0, "of {sent}");
    // A signature with any other secret is invalid, however many secrets the source has.
    assert_eq!(providers[0].send(&inbox, "an unknown secret").await, 401);
    std::fs::remove_dir_all(&folder).unwrap();
    inbox.tells_nothing();
}
