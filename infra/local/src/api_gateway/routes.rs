//! Finds the route of a request.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::template::Route;

pub(super) struct Routes(Vec<(Pattern, Route)>);

/// A route and the values of its variables.
pub(super) struct Match<'a> {
    pub(super) route: &'a Route,
    pub(super) parameters: BTreeMap<String, String>,
}

struct Pattern {
    /// The method. `None` matches any method.
    method: Option<String>,
    segments: Vec<Segment>,
}

/// The variants are in order of priority.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal(String),
    Variable(String),
    /// The rest of the path: `{proxy+}`.
    Rest(String),
}

impl Routes {
    pub(super) fn new(routes: &[Route]) -> Self {
        let mut all: Vec<_> = routes
            .iter()
            .map(|route| (Pattern::parse(&route.key), route.clone()))
            .collect();
        // Literals have priority over variables and `{proxy+}`, methods have priority over ANY, and
        // `$default` comes last.
        all.sort_by_key(|(pattern, _)| pattern.rank());
        Self(all)
    }

    pub(super) fn find(&self, method: &str, path: &str) -> Option<Match<'_>> {
        self.0.iter().find_map(|(pattern, route)| {
            let parameters = pattern.matches(method, path)?;
            Some(Match { route, parameters })
        })
    }
}

impl Pattern {
    fn parse(key: &str) -> Self {
        let Some((method, path)) = key.split_once(' ') else {
            return Self {
                method: None,
                segments: vec![Segment::Rest(String::new())],
            };
        };
        let segment = |text: &str| match text.strip_prefix('{').and_then(|it| it.strip_suffix('}'))
        {
            None => Segment::Literal(text.to_owned()),
            Some(name) => match name.strip_suffix('+') {
                None => Segment::Variable(name.to_owned()),
                Some(name) => Segment::Rest(name.to_owned()),
            },
        };
        Self {
            method: Some(method.to_owned()).filter(|method| method != "ANY"),
            segments: path
                .trim_start_matches('/')
                .split('/')
                .map(segment)
                .collect(),
        }
    }

    fn rank(&self) -> (Vec<u8>, bool) {
        let kind = |segment: &Segment| match segment {
            Segment::Literal(_) => 0,
            Segment::Variable(_) => 1,
            Segment::Rest(name) if name.is_empty() => 3,
            Segment::Rest(_) => 2,
        };
        (
            self.segments.iter().map(kind).collect(),
            self.method.is_none(),
        )
    }

    fn matches(&self, method: &str, path: &str) -> Option<BTreeMap<String, String>> {
        if self
            .method
            .as_deref()
            .is_some_and(|wanted| wanted != method)
        {
            return None;
        }
        let mut rest = path.strip_prefix('/')?;
        let mut parameters = BTreeMap::new();
        for (at, segment) in self.segments.iter().enumerate() {
            if let Segment::Rest(name) = segment {
                if !name.is_empty() {
                    parameters.insert(name.clone(), decoded(rest));
                }
                return Some(parameters);
            }
            let last = at + 1 == self.segments.len();
            let (one, after) = match rest.split_once('/') {
                Some(_) if last => return None,
                Some(parts) => parts,
                None if last => (rest, ""),
                None => return None,
            };
            match segment {
                Segment::Literal(text) if text == one => (),
                Segment::Variable(name) if !one.is_empty() => {
                    parameters.insert(name.clone(), decoded(one));
                }
                _ => return None,
            }
            rest = after;
        }
        Some(parameters)
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(keys: &[&str]) -> Routes {
        let route = |key: &&str| Route {
            key: (*key).to_owned(),
            function: "F".to_owned(),
            timeout: std::time::Duration::from_secs(30),
            signed: false,
        };
        Routes::new(&keys.iter().map(route).collect::<Vec<_>>())
    }

    fn found(routes: &Routes, method: &str, path: &str) -> Option<(String, Vec<String>)> {
        let found = routes.find(method, path)?;
        Some((
            found.route.key.clone(),
            found.parameters.into_values().collect(),
        ))
    }

    #[test]
    fn a_variable_is_one_segment_decoded() {
        let routes = routes(&["POST /in/{source}"]);
        let ok = |value: &str| Some(("POST /in/{source}".to_owned(), vec![value.to_owned()]));
        assert_eq!(found(&routes, "POST", "/in/stripe"), ok("stripe"));
        assert_eq!(found(&routes, "POST", "/in/a%2Fb"), ok("a/b"));
        for path in ["/in", "/in/", "/in/a/b", "/in/a/", "/", "/out/a"] {
            assert_eq!(found(&routes, "POST", path), None, "{path}");
        }
        assert_eq!(found(&routes, "GET", "/in/stripe"), None);
    }

    #[test]
    fn the_most_specific_route_wins() {
        let routes = routes(&[
            "$default",
            "ANY /{proxy+}",
            "GET /in/{source}",
            "ANY /in/{source}",
            "GET /in/health",
        ]);
        let key = |method, path| found(&routes, method, path).unwrap().0;
        assert_eq!(key("GET", "/in/health"), "GET /in/health");
        assert_eq!(key("GET", "/in/x"), "GET /in/{source}");
        assert_eq!(key("PUT", "/in/x"), "ANY /in/{source}");
        assert_eq!(key("PUT", "/other/x"), "ANY /{proxy+}");
    }

    #[test]
    fn default_takes_what_nothing_else_does() {
        assert_eq!(
            found(&routes(&["$default"]), "PUT", "/a/b").unwrap().0,
            "$default"
        );
    }
}
