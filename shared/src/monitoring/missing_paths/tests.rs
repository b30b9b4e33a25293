use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::aws::secrets::Secret;
use crate::sources::Config;
use crate::webhook::envelope::Envelope;
use crate::webhook::verify::Arrival;

const NOW: UnixMillis = UnixMillis(1_795_169_681_000);
const HOUR: Duration = Duration::from_secs(3600);

fn config(settings: &str) -> Config {
    let text = format!(
        "schema = 1\n[[source]]\nname = \"voice\"\npreset = \"vapi\"\nvariant = \"secret\"\n\
         action = [{{ kind = \"keep\" }}]\n{settings}\n"
    );
    Config::parse(&text).unwrap()
}

/// Returns an event of a source whose sender only has to know a token.
fn event(source: &Source, body: &str) -> Event {
    let envelope = Envelope {
        method: "POST".into(),
        url: "https://in.example.com/in/voice".into(),
        headers: [("x-vapi-secret", "token")].into_iter().collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        received_at: NOW,
    };
    match source
        .verifier
        .verify(&envelope, &[Secret::new("a", "token")])
    {
        Ok(Arrival::Event(event)) => *event,
        other => panic!("{other:?}"),
    }
}

fn told(noted: Vec<Noted>) -> Vec<(PathUse, String, u64)> {
    let noted = noted.into_iter();
    let noted = noted.map(|one| (one.missing.used_for, one.missing.path, one.events));
    noted.collect()
}

#[test]
fn a_process_tells_a_path_once_an_hour() {
    let config = config("");
    let source = config.source("voice").unwrap();
    let lacks = event(source, r#"{"message":{}}"#);
    let paths = MissingPaths::default();
    let line = |events| vec![(PathUse::Type, "json:message.type".to_owned(), events)];
    assert_eq!(told(paths.of_event(source, &lacks, NOW)), line(1));
    for _ in 0..99 {
        assert_eq!(paths.of_event(source, &lacks, NOW), []);
    }
    // The next line counts the events that had none.
    assert_eq!(told(paths.of_event(source, &lacks, NOW + HOUR)), line(100));
    assert_eq!(paths.of_event(source, &lacks, NOW + HOUR), []);
    let has = event(source, r#"{"message":{"type":"hang"}}"#);
    assert_eq!(paths.of_event(source, &has, NOW + HOUR + HOUR), []);
}

#[test]
fn an_account_is_missed_only_by_types_that_had_one() {
    let config = config("");
    let source = config.source("voice").unwrap();
    let of = |kind: &str, call: &str| {
        let body = format!(r#"{{"message":{{"type":"{kind}","call":{call}}}}}"#);
        event(source, &body)
    };
    let paths = MissingPaths::default();
    let tell = |event: &Event| told(paths.of_event(source, event, NOW));
    assert_eq!(tell(&of("hang", "{}")), []);
    assert_eq!(tell(&of("hang", r#"{"orgId":"o1"}"#)), []);
    assert_eq!(tell(&of("other", "{}")), []);
    let line = (PathUse::Account, "json:message.call.orgId".to_owned(), 1);
    assert_eq!(tell(&of("hang", "{}")), [line]);
}

#[test]
fn an_account_of_the_source_is_missed_by_every_type() {
    let config = config("account = [\"json:tenant\", \"header:x-t\"]");
    let source = config.source("voice").unwrap();
    let paths = MissingPaths::default();
    let lacks = event(
        source,
        r#"{"message":{"type":"hang","call":{"orgId":"o1"}}}"#,
    );
    let line = (PathUse::Account, "json:tenant, header:x-t".to_owned(), 1);
    assert_eq!(told(paths.of_event(source, &lacks, NOW)), [line]);
}

#[test]
fn an_order_of_the_preset_can_be_optional() {
    let of = |preset: &str, order: &str| {
        let params = if preset == "livekit" {
            "params = { api_key = \"key\" }\n"
        } else {
            ""
        };
        let text = format!(
            "schema = 1\n[[source]]\nname = \"a\"\npreset = {preset:?}\n\
             action = [{{ kind = \"keep\" }}]\n{params}order = {{ mode = \"strict\"{order} }}\n"
        );
        let config = Config::parse(&text).unwrap();
        let source = config.source("a").unwrap();
        let missing = of_order(source, source.order.as_ref().unwrap(), false);
        missing.map(|missing| missing.path)
    };
    let found = |path: &str| Some(path.to_owned());
    assert_eq!(of("livekit", ""), None);
    let own = ", entity = \"json:id\"";
    assert_eq!(of("livekit", own), found("json:id"));
    let stripe = found("json:data.object.id, json:related_object.id");
    assert_eq!(of("stripe", ""), stripe);
}
