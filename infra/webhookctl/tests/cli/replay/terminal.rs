//! `replay apply` at a terminal: the prompt, the progress bars, and Ctrl-C.

use serde_json::json;

use super::downstream::NEVER;
use super::world::{World, document, id, replay_apply};
use testkit::pty::Screen;

fn apply(world: &World, args: &[&str]) -> Screen {
    let line = [&["replay", "apply"], args].concat();
    Screen::of(world.command(&line).into_std())
}

#[tokio::test]
async fn a_person_types_the_count_and_sees_what_comes_of_it() {
    let world = World::start().await;
    let keys = world.dead(0..12).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let mut screen = apply(&world, &[&plan, "--rate", "100"]);
    let question = "This command replays 12 events in local, as anna. Type 12 to continue: ";
    screen.shows(question).await;
    assert!(screen.is_plain(), "the number is seen as it is typed");
    assert_eq!(
        world.downstream.heard(),
        (0, 0),
        "the question is not answered yet"
    );
    screen.types("12\n");
    screen.shows("Trying 5 first …").await;
    screen.shows("Tried 5 first …  ● ● ● ● ●  5 done in").await;
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    for shown in [
        "queued    ━",
        "outcome   ━",
        " 12/12  done 12 · failed 0 · waiting 0",
        "● 12 done in",
        &format!("webhookctl replay show {plan}"),
    ] {
        assert!(ended.text.contains(shown), "{shown}: {}", ended.text);
    }
    assert!(screen.is_plain());
    world.all(&keys, "done").await;
    world.end().await;
}

#[tokio::test]
async fn each_that_is_tried_first_is_marked_when_its_outcome_is_known() {
    let world = World::start().await;
    world.dead(0..12).await;
    world.downstream.answers_after(2, NEVER);
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let mut screen = apply(&world, &[&plan, "--confirm", "12"]);
    screen.shows("Trying 5 first …  ● ●").await;
    screen.types("\u{3}");
    screen.shows("Tried 5 first …  ").await;
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(130), "{}", ended.text);
    for said in ["2 done · 3 waiting", "7 events were not replayed"] {
        assert!(ended.text.contains(said), "{said}: {}", ended.text);
    }
    world.end().await;
}

#[tokio::test]
async fn nothing_runs_unless_the_count_is_typed() {
    let world = World::start().await;
    world.dead(0..3).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    for (typed, said) in [
        ("4\n", "has 3 events, but you typed 4; nothing was replayed"),
        ("yes\n", "not a number; nothing was replayed"),
        ("\n", "replay.not_confirmed"),
        // The byte for the end of input.
        ("\u{4}", "replay.not_confirmed"),
    ] {
        let mut screen = apply(&world, &[&plan]);
        screen.shows("Type 3 to continue: ").await;
        screen.types(typed);
        let ended = screen.ends().await;
        assert_eq!(ended.exit, Some(7), "{typed:?}: {}", ended.text);
        assert!(ended.text.contains(said), "{typed:?}: {}", ended.text);
    }
    let ended = apply(&world, &[&plan, "--no-input"]).ends().await;
    assert_eq!(ended.exit, Some(7), "{}", ended.text);
    assert!(!ended.text.contains("Type 3"), "{}", ended.text);
    for said in ["replay.confirm_needed", "--no-input is given"] {
        assert!(ended.text.contains(said), "{}", ended.text);
    }
    assert_eq!(world.downstream.heard(), (0, 0));
    world.end().await;
}

#[tokio::test]
async fn the_question_says_that_the_context_is_protected() {
    let world = World::start().await;
    let keys = world.dead(0..3).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let line = ["replay", "apply", &plan];
    let question =
        "This command replays 3 events in prod (protected), as anna. Type 3 to continue: ";
    for (typed, said) in [
        ("yes\n", "not a number; nothing was replayed"),
        ("4\n", "you typed 4; nothing was replayed"),
    ] {
        let mut screen = Screen::of(world.protected(&line).await.into_std());
        screen.shows(question).await;
        screen.types(typed);
        let ended = screen.ends().await;
        assert_eq!(ended.exit, Some(7), "{typed:?}: {}", ended.text);
        assert!(ended.text.contains(said), "{typed:?}: {}", ended.text);
    }
    assert_eq!(world.downstream.heard(), (0, 0));
    let mut screen = Screen::of(world.protected(&line).await.into_std());
    screen.shows(question).await;
    screen.types("3\n");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(0), "{}", ended.text);
    world.all(&keys, "done").await;
    world.end().await;
}

#[tokio::test]
async fn the_keys_of_an_interrupt_stop_it_where_it_can_go_on() {
    let world = World::start().await;
    world.dead(0..30).await;
    let plan = id(&world.plan(&["-s", "orders"]).await);
    let slow = [
        plan.as_str(),
        "--confirm",
        "30",
        "--canary",
        "0",
        "--rate",
        "2",
    ];
    let mut screen = apply(&world, &slow);
    screen.shows("1/30").await;
    screen.types("\u{3}");
    let ended = screen.ends().await;
    assert_eq!(ended.exit, Some(130), "{}", ended.text);
    for said in [
        "stopped; queued events still run",
        &format!("webhookctl replay apply {plan}"),
    ] {
        assert!(ended.text.contains(said), "{}", ended.text);
    }
    assert!(screen.is_plain());

    let rest = replay_apply(&plan, "--confirm 30 --rate 200 -o json");
    let applied = document(&world.webhookctl(&rest).await, 0);
    let outcome = json!({"done": 30, "failed": 0, "waiting": 0, "changed": 0});
    assert_eq!(applied["outcome"], outcome);
    assert_eq!(world.downstream.heard(), (30, 30));
    world.end().await;
}
