//! Patterns of names: `*` matches any text, `?` one character, and other characters themselves.

/// Returns whether the whole name matches the pattern. Backtracks only to the last `*`, so no
/// pattern is slow.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(of_name) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(p) if *p == '?' || p == c => {
                at += 1;
                of_name += 1;
            }
            _ => {
                let Some((pattern_at, taken)) = star else {
                    return false;
                };
                star = Some((pattern_at, taken + 1));
                at = pattern_at + 1;
                of_name = taken + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|p| *p == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_others() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "anything"),
            ("invoice.*", "invoice.paid"),
            ("*.paid", "invoice.paid"),
            ("in*ce.*d", "invoice.paid"),
            ("a?c", "abc"),
            ("a*b*c", "aXbXbYc"),
            ("ä*", "äö"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("invoice.*", "invoice"),
            ("a?c", "ac"),
            ("ab*b", "ab"),
            ("*.paid", "invoice.paid.late"),
            ("a*b", "abc"),
            ("", "a"),
            ("invoice.paid", "invoice.paidd"),
            ("[a]", "a"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        assert!(!fits(&"*a".repeat(50), &"a".repeat(40)));
        assert!(!fits(
            &format!("{}b", "*a".repeat(200)),
            &"a".repeat(20_000)
        ));
    }
}
