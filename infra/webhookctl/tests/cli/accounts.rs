//! Two shops of one app behind one source, as a user works with them: each event reaches the
//! handler with its shop, and commands select the events of one shop.

use serde_json::Value;

use crate::support::folder::{stderr, told};
use crate::support::receiver::{OK, Receiver};
use crate::support::world::World;
use anyhow::{Context as _, ensure};

const ONE: &str = "one.myshopify.com";
const TWO: &str = "two.myshopify.com";

fn start(name: &str, app: &Receiver) -> anyhow::Result<World> {
    let sources = format!(
        "schema = 1\n[forward]\nallow_loopback = true\n\
         [[source]]\nname = \"shop\"\npreset = \"shopify\"\n\
         [[source.action]]\nkind = \"http\"\nurl = \"{}/shop\"\nsecret = \"app\"\n",
        app.origin()
    );
    World::start(name, &sources)
}

impl World {
    /// Sends an order of a shop, waits until it is done, and returns its id.
    fn order(&self, shop: &str, number: u32) -> anyhow::Result<String> {
        let body = format!(r#"{{"id":{number}}}"#);
        let line = ["send", "shop", "--account", shop, "--data", &body];
        let sent = self.json(&[&line[..], &["--wait"]].concat())?;
        Ok(sent["id"].as_str().context("an id")?.to_owned())
    }

    fn ids(&self, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
        let line = [&["inbox", "list", "-o", "ids"], arguments].concat();
        let output = self.run(&line)?;
        ensure!(output.status.success(), "{}", told(&output));
        let ids = String::from_utf8(output.stdout)?;
        Ok(ids.lines().map(str::to_owned).collect())
    }

    fn done(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = self.run(arguments)?;
        ensure!(output.status.success(), "{}", told(&output));
        Ok(())
    }
}

/// Checks that the next request is from this shop.
fn heard(app: &Receiver, shop: &str) -> anyhow::Result<()> {
    let got = app.next()?;
    assert_eq!(got.header("mitt-account"), shop);
    assert_eq!(got.header("mitt-account-signed"), "no");
    Ok(())
}

#[test]
fn the_events_of_one_shop_are_replayed_and_erased() -> anyhow::Result<()> {
    let app = Receiver::start(OK)?;
    let world = start("accounts", &app)?;
    let first = world.order(ONE, 1)?;
    heard(&app, ONE)?;
    let second = world.order(TWO, 2)?;
    heard(&app, TWO)?;
    assert_eq!(world.ids(&["--account", ONE])?, [first.as_str()]);
    assert_eq!(world.ids(&["--account", TWO])?, [second.as_str()]);
    let of_header = ["--header", "X-Shopify-Shop-Domain=two.myshopify.com"];
    assert_eq!(world.ids(&of_header)?, [second.as_str()]);

    let plan = "replay plan -m lost --mode force --new-effect --account";
    let plan: Vec<&str> = plan.split(' ').chain([ONE]).collect();
    let plan = world.json(&plan)?;
    let plan = plan["id"].as_str().context("a plan")?;
    world.done(&["replay", "apply", plan, "--confirm", "1"])?;
    heard(&app, ONE)?;

    world.done(&["erase", "--account", ONE, "-m", "gone", "--confirm", "1"])?;
    assert!(world.ids(&["--account", ONE])?.is_empty());
    assert_eq!(world.ids(&["--account", TWO])?, [second.as_str()]);
    let erased = world.json(&["inbox", "inspect", &first])?;
    assert_eq!(erased["account"], Value::Null);
    assert_eq!(erased["request"]["kept"], false);
    let kept = world.json(&["inbox", "inspect", &second])?;
    assert_eq!(kept["account"]["value"], TWO);
    assert_eq!(kept["request"]["headers"]["x-shopify-shop-domain"], TWO);
    Ok(())
}

#[test]
fn a_failed_redrive_of_an_account_prints_no_other_selection() -> anyhow::Result<()> {
    let app = Receiver::start(OK)?;
    let world = start("accounts-redrive", &app)?;
    world.order(ONE, 1)?;
    heard(&app, ONE)?;
    let redrive = ["dlq", "redrive", "-m", "again", "--account", ONE];
    let output = world.run(&redrive)?;
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let said = stderr(&output);
    assert!(
        !said.contains("not stored") && !said.contains(ONE),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_known_body_under_another_id_is_shown_as_quarantined() -> anyhow::Result<()> {
    let app = Receiver::start(OK)?;
    let world = start("known-body", &app)?;
    world.order(ONE, 1)?;
    heard(&app, ONE)?;
    let again = ["send", "shop", "--account", ONE, "--data", r#"{"id":1}"#];
    let sent = world.json(&again)?;
    assert_eq!(sent["outcome"], "quarantined");
    Ok(())
}
