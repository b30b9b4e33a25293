//! Masks values that differ from run to run: ids, times, hashes and prices.

/// Masks the values in the text that differ from run to run.
pub(super) fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut words = line.split_whitespace().map(mask).collect::<Vec<_>>();
        // The number of calls depends on the current minute.
        if let Some(calls) = words.iter().position(|word| word.starts_with("calls"))
            && let Some(count) = words.get_mut(calls.wrapping_sub(1))
        {
            "COUNT".clone_into(count);
        }
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn mask(word: &str) -> String {
    let core = word.trim_matches(|c: char| "().,;:".contains(c));
    let masked = if is_id(core) {
        "ID"
    } else if core.starts_with("fp:") {
        "FINGERPRINT"
    } else if is_hash(core) {
        "HASH"
    } else if core.chars().any(|c| ('▁'..='█').contains(&c)) {
        "BARS"
    } else if is_time(core) {
        "TIME"
    } else if core.parse::<f64>().is_ok() && core.contains('.') {
        "PRICE"
    } else {
        return word.to_owned();
    };
    word.replace(core, masked)
}

/// Returns the ids in a text, in order.
pub(super) fn ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| is_id(word))
}

fn is_id(word: &str) -> bool {
    ["evt_", "rpl_"].iter().any(|kind| word.starts_with(kind))
}

/// Returns whether the word is a hash, or the part of a hash that is shown.
fn is_hash(word: &str) -> bool {
    let part = word.contains('…') || word.len() >= 32;
    part && word.chars().all(|c| c == '…' || c.is_ascii_hexdigit())
}

/// Returns whether the word is a duration such as `40m`, `1h02m` or `0.31s`, or a time with or
/// without a date.
fn is_time(word: &str) -> bool {
    let digits = word.starts_with(|c: char| c.is_ascii_digit());
    let span = |c: char| c.is_ascii_digit() || ".smhd".contains(c);
    let clock = |c: char| c.is_ascii_digit() || "-T:.Z".contains(c);
    let ends = word.ends_with(['s', 'm', 'h', 'd']);
    digits && (ends && word.chars().all(span) || word.contains(':') && word.chars().all(clock))
}

#[test]
fn only_what_differs_from_run_to_run_is_masked() {
    for (text, expected) in [
        ("evt_01M7W76XREM  done", "ID done"),
        (
            "(fp:4d8f437d) gives 1f14a62b…be5f",
            "(FINGERPRINT) gives HASH",
        ),
        (
            "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "sha256 HASH",
        ),
        ("show rpl_7KQ2M4, f45942", "show ID, f45942"),
        ("acme   2   40m1s  failing", "acme 2 TIME failing"),
        ("p50 0.31s, p95", "p50 TIME, p95"),
        ("per hour ▁▁█", "per hour BARS"),
        ("12.5 read units", "PRICE read units"),
        ("335 calls, 1", "COUNT calls, 1"),
        ("received 10:14:41 of 7 bytes", "received TIME of 7 bytes"),
        ("3 secrets match", "3 secrets match"),
    ] {
        assert_eq!(masked(text), expected);
    }
}

#[test]
fn ids_are_found_in_their_order() {
    let text = "evt_01M7W76XREM  see `replay show rpl_7KQ2M4`; f45942, evt_2.";
    let found: Vec<&str> = ids(text).collect();
    assert_eq!(found, ["evt_01M7W76XREM", "rpl_7KQ2M4", "evt_2"]);
}
