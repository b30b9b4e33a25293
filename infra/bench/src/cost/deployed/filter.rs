//! Metric filters, which create custom metrics from log lines. AWS bills each custom metric.
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html>

use anyhow::{Context as _, bail};
use local::template::Resources;
use serde_json::Value;

/// A filter over a log group, such as `{ $.fields.missed_events > 0 }`, or
/// `{ ($.a = 1) && ($.b != "c") }`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    pub(crate) log_group: String,
    /// The names of the metrics that a line creates.
    pub(crate) metrics: Vec<String>,
    /// A line has to match each of them.
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    path: Vec<String>,
    operator: Operator,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Not,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

pub(super) fn read(resources: &Resources<'_>) -> anyhow::Result<Vec<Filter>> {
    let mut filters = Vec::new();
    for id in resources.of("AWS::Logs::MetricFilter") {
        let text = |name| -> anyhow::Result<String> {
            let value = resources.property(id, name)?.unwrap_or_default();
            let text = value
                .as_str()
                .with_context(|| format!("{id} has no {name}"))?;
            Ok(text.to_owned())
        };
        let made = resources.property(id, "MetricTransformations")?;
        let made = made.unwrap_or_default();
        let made = made.as_array().into_iter().flatten();
        let names = made.filter_map(|one| one["MetricName"].as_str());
        let names = names.map(str::to_owned).collect();
        let pattern = text("FilterPattern")?;
        let filter = Filter::parse(&pattern, text("LogGroupName")?, names);
        filters.push(filter.with_context(|| id.to_owned())?);
    }
    Ok(filters)
}

impl Filter {
    fn parse(pattern: &str, log_group: String, metrics: Vec<String>) -> anyhow::Result<Self> {
        let inside = pattern.trim().strip_prefix('{');
        let inside = inside.and_then(|rest| rest.strip_suffix('}'));
        let inside = inside.unwrap_or_default().trim();
        let in_brackets = inside.strip_prefix('(');
        let in_brackets = in_brackets.and_then(|rest| rest.strip_suffix(')'));
        let terms: Vec<&str> = match in_brackets {
            Some(terms) => terms.split(") && (").collect(),
            None => vec![inside],
        };
        let terms = terms.into_iter().map(Term::parse);
        let terms: anyhow::Result<_> = terms.collect();
        Ok(Self {
            log_group,
            metrics,
            terms: terms.with_context(|| format!("the pattern {pattern:?} cannot be read"))?,
        })
    }

    /// Returns whether a JSON log line matches the filter and creates the metrics.
    pub(crate) fn takes(&self, line: &Value) -> bool {
        self.terms.iter().all(|term| term.takes(line))
    }
}

impl Term {
    fn parse(term: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = term.splitn(3, ' ').collect();
        let [path, operator, value] = words.as_slice() else {
            bail!("{term:?} does not have the form $.fields.name > 0");
        };
        let operator = match *operator {
            "=" => Operator::Equal,
            "!=" => Operator::Not,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::More,
            ">=" => Operator::MoreOrEqual,
            other => bail!("{term:?} has the unknown operator {other:?}"),
        };
        let path = path.strip_prefix("$.");
        let path = path.with_context(|| format!("{term:?} has no path that begins with $."))?;
        Ok(Self {
            path: path.split('.').map(str::to_owned).collect(),
            operator,
            value: serde_json::from_str(value)
                .with_context(|| format!("{term:?} has an invalid value"))?,
        })
    }

    fn takes(&self, line: &Value) -> bool {
        let found = self.path.iter().try_fold(line, |at, name| at.get(name));
        let Some(found) = found else {
            return false;
        };
        if let (Some(found), Some(value)) = (found.as_f64(), self.value.as_f64()) {
            let order = found.total_cmp(&value);
            return match self.operator {
                Operator::Equal => order.is_eq(),
                Operator::Not => order.is_ne(),
                Operator::Less => order.is_lt(),
                Operator::LessOrEqual => order.is_le(),
                Operator::More => order.is_gt(),
                Operator::MoreOrEqual => order.is_ge(),
            };
        }
        match self.operator {
            Operator::Equal => *found == self.value,
            Operator::Not => *found != self.value,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn takes(pattern: &str, line: &Value) -> bool {
        let filter = Filter::parse(pattern, "Logs".into(), vec!["M".into()]);
        filter.unwrap().takes(line)
    }

    #[test]
    fn a_line_is_taken_by_what_it_says() {
        let line = json!({"fields": {"missed": 2, "metric": "health", "rate": 0.0}});
        assert!(takes("{ $.fields.missed > 0 }", &line));
        assert!(takes("{ $.fields.rate >= 0 }", &line));
        assert!(takes(r#"{ $.fields.metric = "health" }"#, &line));
        assert!(!takes("{ $.fields.rate > 0 }", &line));
        assert!(!takes(r#"{ $.fields.metric = "drift" }"#, &line));
        assert!(!takes("{ $.fields.absent >= 0 }", &line));
        let both = r#"{ ($.fields.missed > 0) && ($.fields.metric != "a {b} c") }"#;
        assert!(takes(both, &line));
        let other = json!({"fields": {"missed": 2, "metric": "a {b} c"}});
        assert!(!takes(both, &other));
    }

    #[test]
    fn a_pattern_that_cannot_be_judged_is_refused() {
        for pattern in [
            "",
            "ERROR",
            "{ $.a > 0 && $.b > 0 }",
            "{ ($.a > 0) || ($.b > 0) }",
            "{ $.a ~ 1 }",
            "{ a > 0 }",
        ] {
            let filter = Filter::parse(pattern, String::new(), Vec::new());
            assert!(filter.is_err(), "{pattern}");
        }
    }
}
