//! The formats of stdout. A command describes its rows once; this module prints every format.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::base::clock::UnixMillis;

use super::column::{Column, field, plain};
use super::count::plural;
use super::safe::{defused, inert_json, safe};
use super::table::{self, Canvas, Head};
use super::time::rfc3339;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people; width follows the terminal
    #[default]
    Table,
    /// Every column, whole ids
    Wide,
    /// One document
    Json,
    /// One object per line
    Jsonl,
    /// RFC 4180, formulas escaped
    Csv,
    /// Ids only, one per line
    Ids,
    /// OTLP JSON, for `inbox trace` only
    #[value(hide = true)]
    Otlp,
}

impl Format {
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }

    pub fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// A list of rows, with its metadata and messages.
pub struct List<'a, T> {
    /// Name of the schema, such as `inbox.list`.
    pub command: &'static str,
    pub context: &'a str,
    /// The time when the rows were read, in RFC 3339.
    pub as_of: String,
    pub columns: Vec<Column<'a, T>>,
    /// The field that `-o ids` prints.
    pub id: &'static str,
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
    /// Whether there are more rows than the list has.
    pub truncated: bool,
    /// A text on stderr below the table, with the number of rows, the context and the cost.
    pub footer: Option<String>,
    /// The text on stderr if the list is empty.
    pub empty: String,
    /// The suggested next command. It is printed only at a terminal.
    pub tip: Option<String>,
    /// The time range of the list, if it has one.
    pub range: Option<Range>,
}

/// The time range of a list, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub since: UnixMillis,
    pub until: UnixMillis,
    /// The number of hours in the range that the list does not cover.
    pub uncounted_hours: usize,
}

impl Range {
    /// Creates a range that the list covers, both ends inclusive.
    pub fn covered(since: UnixMillis, until: UnixMillis) -> Self {
        Self {
            since,
            until,
            uncounted_hours: 0,
        }
    }
}

/// The cost of a command, as documents show it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) calls: u64,
    pub(crate) read_units: f64,
}

impl Spent {
    /// Returns the cost of the current command until now. Returns `None` if it sent no request.
    pub(crate) fn now() -> Option<Self> {
        let cost = crate::meter::spent().filter(|cost| cost.calls > 0)?;
        Some(Self {
            calls: cost.calls,
            read_units: (cost.read_units * 10.0).round() / 10.0,
        })
    }

    /// Returns the cost for a footer, such as `46 calls, 61.0 read units`.
    pub(crate) fn text(self) -> String {
        let calls = plural(self.calls, "call");
        format!("{calls}, {:.1} read units", self.read_units)
    }
}

impl<'a, T> List<'a, T> {
    /// Creates a complete list, whose ids are in the field `id`, without messages.
    pub fn new(
        command: &'static str,
        context: &'a str,
        as_of: UnixMillis,
        columns: Vec<Column<'a, T>>,
        items: Vec<T>,
    ) -> Self {
        Self {
            command,
            context,
            as_of: rfc3339(as_of.0),
            columns,
            id: "id",
            items,
            next_cursor: None,
            truncated: false,
            footer: None,
            empty: String::new(),
            tip: None,
            range: None,
        }
    }
}

impl<T: Serialize> List<'_, T> {
    /// Returns the output for stdout.
    pub fn data(
        &self,
        format: Format,
        width: Option<usize>,
        colour: bool,
    ) -> anyhow::Result<String> {
        match format {
            Format::Table | Format::Wide => self.table(Canvas {
                width,
                wide: format == Format::Wide,
                colour,
            }),
            Format::Json => json_document(&self.document()),
            Format::Jsonl => self.items.iter().map(json_line).collect(),
            Format::Csv => self.csv(),
            Format::Ids => self.ids(),
            // The arguments are refused before a command runs.
            Format::Otlp => Ok(String::new()),
        }
    }

    fn table(&self, canvas: Canvas) -> anyhow::Result<String> {
        if self.items.is_empty() {
            return Ok(String::new());
        }
        let mut rows = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let json = serde_json::to_value(item)?;
            let cells = self
                .columns
                .iter()
                .map(|column| column.cell(item, &json, canvas.wide));
            rows.push(cells.collect());
        }
        let heads: Vec<Head> = self
            .columns
            .iter()
            .map(|column| column.head().clone())
            .collect();
        Ok(table::render(&heads, &rows, canvas))
    }

    /// Returns the document of `-o json`.
    pub(super) fn document(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Document<'a, T> {
            schema: String,
            context: &'a str,
            as_of: &'a str,
            items: &'a [T],
            next_cursor: Option<&'a str>,
            truncated: bool,
            #[serde(flatten, skip_serializing_if = "Option::is_none")]
            range: Option<RangeFields>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cost: Option<Spent>,
        }
        #[derive(Serialize)]
        struct RangeFields {
            since: String,
            until: String,
            uncounted_hours: usize,
        }
        let fields = |range: Range| RangeFields {
            since: rfc3339(range.since.0),
            until: rfc3339(range.until.0),
            uncounted_hours: range.uncounted_hours,
        };
        Document {
            schema: schema(self.command),
            context: self.context,
            as_of: &self.as_of,
            items: &self.items,
            next_cursor: self.next_cursor.as_deref(),
            truncated: self.truncated,
            range: self.range.map(fields),
            cost: Spent::now(),
        }
    }

    fn csv(&self) -> anyhow::Result<String> {
        let heads: Vec<String> = self.columns.iter().map(|c| c.field().to_owned()).collect();
        let mut text = csv_line(heads);
        for item in &self.items {
            let json = serde_json::to_value(item)?;
            let cells = self
                .columns
                .iter()
                .map(|column| csv_text(field(&json, column.field())));
            text += &csv_line(cells.collect());
        }
        Ok(text)
    }

    fn ids(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for item in &self.items {
            let json = serde_json::to_value(item)?;
            text += &safe(&plain(field(&json, self.id)));
            text.push('\n');
        }
        Ok(text)
    }
}

/// Returns the name of a schema, such as `webhookctl/inbox.list/v1`. A version can only gain
/// fields.
pub(crate) fn schema(command: &str) -> String {
    format!("webhookctl/{command}/v1")
}

/// Returns an indented document with its line end. Escapes hostile characters.
pub(crate) fn json_document(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(inert_json(serde_json::to_string_pretty(document)?) + "\n")
}

/// Returns one object on one line.
pub(crate) fn json_line(item: &impl Serialize) -> anyhow::Result<String> {
    Ok(inert_json(serde_json::to_string(item)?) + "\n")
}

/// Only text can be a formula, so a negative number is not escaped.
///
/// A list becomes its texts, separated by commas, and an object its fields as `name=value`.
pub(crate) fn csv_text(value: &Value) -> String {
    let cell = flat(value);
    if value.is_number() {
        cell
    } else {
        safe(&defused(&cell)).into_owned()
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}={}", flat(value));
            fields.iter().map(field).collect::<Vec<_>>().join(" ")
        }
        other => plain(other),
    }
}

pub(crate) fn csv_line(cells: Vec<String>) -> String {
    // Some spreadsheets also split at `;`, so the text after it could become a formula.
    let special = [',', ';', '"', '\r', '\n', '\t', ' '];
    let cells: Vec<String> = cells
        .into_iter()
        .map(|cell| {
            if cell.contains(special) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell
            }
        })
        .collect();
    cells.join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::super::safe::tests::{corpus, is_inert};
    use super::*;

    #[derive(Serialize)]
    struct Row {
        id: String,
        status: &'static str,
        text: String,
        count: i64,
        next: Next,
    }

    #[derive(Serialize)]
    struct Next {
        text: String,
    }

    fn list(texts: Vec<String>) -> List<'static, Row> {
        let row = |text: String| Row {
            id: "evt_01M7W54EPFH8XFYM19RW4Y21MY".into(),
            status: "failed",
            next: Next { text: text.clone() },
            text,
            count: -3,
        };
        List {
            command: "test.list",
            context: "prod",
            as_of: "2026-11-20T10:14:41Z".into(),
            columns: vec![
                Column::id("id"),
                Column::status("status"),
                Column::whole("N", "count").right(),
                Column::text("TEXT", "text", 8).shown(|row: &Row| row.text.clone()),
                Column::text("NEXT", "next.text", 8).extra(),
            ],
            id: "id",
            items: texts.into_iter().map(row).collect(),
            next_cursor: None,
            truncated: false,
            footer: None,
            empty: "No rows.".into(),
            tip: None,
            range: None,
        }
    }

    const ALL: [Format; 6] = [
        Format::Table,
        Format::Wide,
        Format::Json,
        Format::Jsonl,
        Format::Csv,
        Format::Ids,
    ];

    #[test]
    fn every_format_of_one_list() {
        let list = list(vec!["a b".into()]);
        let data = |format| list.data(format, Some(80), false).unwrap();
        assert_eq!(
            data(Format::Table),
            "ID               STATUS   N  TEXT\nevt_01M7W54EPFH  failed  -3  a b\n"
        );
        assert!(
            data(Format::Wide).contains("evt_01M7W54EPFH8XFYM19RW4Y21MY  failed  -3  a b   a b")
        );
        assert_eq!(
            data(Format::Json),
            "{\n  \"schema\": \"webhookctl/test.list/v1\",\n  \"context\": \"prod\",\n  \
             \"as_of\": \"2026-11-20T10:14:41Z\",\n  \"items\": [\n    {\n      \
             \"id\": \"evt_01M7W54EPFH8XFYM19RW4Y21MY\",\n      \"status\": \"failed\",\n      \
             \"text\": \"a b\",\n      \"count\": -3,\n      \"next\": {\n        \
             \"text\": \"a b\"\n      }\n    }\n  ],\n  \"next_cursor\": null,\n  \
             \"truncated\": false\n}\n"
        );
        assert_eq!(
            data(Format::Jsonl),
            "{\"id\":\"evt_01M7W54EPFH8XFYM19RW4Y21MY\",\"status\":\"failed\",\"text\":\"a b\",\
             \"count\":-3,\"next\":{\"text\":\"a b\"}}\n"
        );
        assert_eq!(
            data(Format::Csv),
            "id,status,count,text,next.text\r\n\
             evt_01M7W54EPFH8XFYM19RW4Y21MY,failed,-3,\"a b\",\"a b\"\r\n"
        );
        assert_eq!(data(Format::Ids), "evt_01M7W54EPFH8XFYM19RW4Y21MY\n");
    }

    #[test]
    fn a_list_without_rows_is_still_a_document() {
        let list = list(Vec::new());
        let data = |format| list.data(format, None, false).unwrap();
        assert!(data(Format::Json).contains("\"items\": []"));
        assert_eq!(data(Format::Csv), "id,status,count,text,next.text\r\n");
        assert_eq!(
            [Format::Table, Format::Jsonl, Format::Ids].map(data),
            ["", "", ""]
        );
    }

    #[test]
    fn the_hostile_corpus_is_inert_in_every_format() {
        for text in corpus() {
            let mut list = list(vec![text.clone()]);
            list.items[0].id.clone_from(&text);
            for format in ALL {
                let data = list.data(format, Some(100), false).unwrap();
                let lines = data.split('\n').map(|line| line.trim_end_matches('\r'));
                for line in lines {
                    assert!(is_inert(line), "{format:?} {line:?}");
                }
            }
        }
    }

    #[test]
    fn json_gives_back_the_very_bytes() {
        let texts = corpus();
        let list = list(texts.clone());
        let json: Value =
            serde_json::from_str(&list.data(Format::Json, None, false).unwrap()).unwrap();
        let lines = list.data(Format::Jsonl, None, false).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        for (index, (line, text)) in lines.zip(&texts).enumerate() {
            assert_eq!(line["text"], text.as_str());
            assert_eq!(json["items"][index]["text"], text.as_str());
        }
    }

    #[test]
    fn each_row_is_one_line_whatever_it_holds() {
        let rows = corpus().len();
        let list = list(corpus());
        for (format, lines) in [
            (Format::Table, rows + 1),
            (Format::Csv, rows + 1),
            (Format::Ids, rows),
        ] {
            assert_eq!(
                list.data(format, Some(80), false).unwrap().lines().count(),
                lines
            );
        }
    }

    #[test]
    fn a_csv_cell_contains_no_json() {
        let value = serde_json::json!({"safe": 1, "names": ["a", "b"]});
        assert_eq!(csv_text(&value), "names=a, b safe=1");
        assert_eq!(csv_text(&serde_json::json!(["=cmd", "b"])), "'=cmd, b");
    }
}
