//! `--query`: selects a part of the JSON document.
//! <https://jmespath.org/specification.html>

use serde::Serialize;

use super::error::CliError;

/// A valid `JMESPath` expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query(String);

impl Query {
    pub fn parse(text: &str) -> Result<Self, CliError> {
        match jmespath::compile(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(wrong("is not a JMESPath expression", &error)
                .tip("quote it for the shell, for example --query 'items[].id'")
                .docs("https://jmespath.org/tutorial.html")),
        }
    }

    /// Returns the result of the expression on the document, or `null` if the expression matches
    /// nothing.
    pub fn of(&self, document: &impl Serialize) -> Result<jmespath::Variable, CliError> {
        let found = jmespath::compile(&self.0).and_then(|query| query.search(document));
        found
            .map(|found| (*found).clone())
            .map_err(|error| wrong("does not match this document", &error))
    }
}

fn wrong(what: &str, error: &jmespath::JmespathError) -> CliError {
    // Only the first line names the error. The other lines mark the position in the expression.
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    CliError::usage("usage.query", format!("--query {what}: {line}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Format;

    #[test]
    fn a_query_takes_its_part_of_a_document() {
        let document = json!({"items": [{"id": "evt_1", "next": {"text": "none"}, "n": 3}]});
        let found = |query: &str| {
            let found = Query::parse(query).unwrap().of(&document).unwrap();
            serde_json::to_value(found).unwrap()
        };
        assert_eq!(
            found("items[].{id: id, next: next.text}"),
            json!([{"id": "evt_1", "next": "none"}])
        );
        assert_eq!(found("items[0].n"), json!(3));
        assert_eq!(found("nothing"), json!(null));
        let error = Query::parse("abs(items)")
            .unwrap()
            .of(&document)
            .err()
            .unwrap();
        assert_eq!(error.code, "usage.query");
    }

    #[test]
    fn a_broken_query_is_answered_in_three_lines() {
        let error = Query::parse("items[").unwrap_err();
        assert_eq!(
            error.render(Format::Table, false),
            "error: --query is not a JMESPath expression: Parse error: Expected number, ':', or '*' \
             -- found Eof (line 0, column 6) [usage.query]\n  \
             tip: quote it for the shell, for example --query 'items[].id'\n \
             docs: https://jmespath.org/tutorial.html\n"
        );
    }
}
