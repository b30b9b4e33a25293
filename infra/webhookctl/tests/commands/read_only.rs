//! With `WEBHOOKCTL_READ_ONLY`, the CLI refuses each command that writes. Commands that read still
//! work, and no command changes anything.

use crate::kept::Kept;
use crate::lines::{Lines, May};
use crate::recorder::Call;
use crate::verbs::table;
use crate::world::World;

/// The exit code `Exit::Refused`.
const REFUSED: i32 = 7;

#[tokio::test]
async fn where_only_reading_is_allowed_whatever_writes_is_refused_and_nothing_changes() {
    let world = World::start().await;
    let lines = Lines::new(&world).await;
    let before = Kept::at_rest(&world.stack).await;
    let mut wrong = Vec::new();
    let mut refused = 0;
    for verb in table() {
        for line in &verb.run {
            let ran = lines.run(line, May::OnlyRead).await;
            if !verb.exit.contains(&ran.code) {
                wrong.push(format!("{line} is not answered: {ran:?}"));
            }
        }
        for line in &verb.writes {
            let ran = lines.run(line, May::OnlyRead).await;
            let said = ran.said.contains("[context.read_only]");
            if ran.code != REFUSED || !said || !ran.calls.iter().all(Call::reads) {
                wrong.push(format!("{line} is not refused: {ran:?}"));
            }
            refused += 1;
        }
        let after = Kept::of(&world.stack).await;
        let changed = before.differences(&after);
        assert!(changed.is_empty(), "{} changed {changed:?}", verb.name);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 20, "only {refused} lines were refused");
    world.end().await;
}

#[tokio::test]
async fn what_is_kept_is_seen_to_change() {
    let world = World::start().await;
    let before = Kept::at_rest(&world.stack).await;
    world.put("acme", "evt_1", "a.b", world.now).await;
    world.secret("/mitt/ingress/acme/v2", "other").await;
    let sqs = world.stack.clients().sqs;
    let queue = world.stack.queue_url("WorkDeadLetters").unwrap();
    let send = sqs.send_message().queue_url(queue).message_body("x");
    send.send().await.unwrap();
    let s3 = world.stack.clients().s3;
    let bucket = world.stack.bucket("Bodies").unwrap();
    let put = s3.put_object().bucket(bucket).key("bodies/1");
    put.body(b"x".to_vec().into()).send().await.unwrap();
    let changed = before.differences(&Kept::of(&world.stack).await);
    for part in ["E#acme#evt_1", "/acme/v2", "bodies/1", "WorkDeadLetters"] {
        let seen = changed.iter().any(|it| it.contains(part));
        assert!(seen, "{part}: {changed:?}");
    }
    world.end().await;
}
