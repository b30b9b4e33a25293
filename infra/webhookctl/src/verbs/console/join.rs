//! Joins the modules of the page into one script.
//!
//! A request costs a browser some milliseconds, also on this machine, and the page has about thirty
//! modules. Each module becomes a function that runs once, after the modules that it imports. Lines
//! that hold only a comment, and the spaces at the beginning of lines, stay here, because the browser
//! needs neither.

/// Returns the modules that `entry` needs as one script. `read` returns the text of a module.
pub(super) fn join(entry: &str, read: &dyn Fn(&str) -> Option<String>) -> String {
    let mut script = Script {
        read,
        modules: Vec::new(),
        text: String::new(),
    };
    script.add(entry);
    script.text
}

struct Script<'r> {
    read: &'r dyn Fn(&str) -> Option<String>,
    /// The paths of the modules that are in the text, or that wait for their imports.
    modules: Vec<String>,
    text: String,
}

impl Script<'_> {
    /// Adds a module, unless it is there. Returns the constant that holds its exports.
    fn add(&mut self, path: &str) -> String {
        let constant = constant(path);
        if self.modules.iter().any(|module| module == path) {
            return constant;
        }
        self.modules.push(path.to_owned());
        let source = (self.read)(path).unwrap_or_default();
        let (mut body, mut exports) = (String::new(), Vec::new());
        let mut lines = without_comments(&source);
        while let Some(line) = lines.next() {
            if line.starts_with("import ") || line.starts_with("export * ") {
                let mut statement = line.to_owned();
                while !statement.ends_with(';')
                    && let Some(next) = lines.next()
                {
                    statement = statement + " " + next.trim();
                }
                self.import(path, &statement, &mut body, &mut exports);
            } else if let Some(declared) = line.strip_prefix("export ") {
                exports.push(name(declared));
                body = body + declared + "\n";
            } else {
                body = body + line + "\n";
            }
        }
        let exports = exports.join(", ");
        let start = ["// ", path, "\nconst ", &constant, " = (() => {\n", &body];
        self.text.extend(start);
        self.text.extend(["return { ", &exports, " };\n})();\n"]);
        constant
    }

    /// Replaces an `import` by a constant, and an `export *` by the exports of the other module.
    fn import(&mut self, path: &str, line: &str, body: &mut String, exports: &mut Vec<String>) {
        let (what, from) = line.split_once(" from ").unwrap_or((line, ""));
        let module = self.add(&beside(path, from.trim_matches(['"', ';'])));
        let Some(names) = what.strip_prefix("import ") else {
            exports.push(format!("...{module}"));
            return;
        };
        let names = names.trim_start_matches("* as ").replace(" as ", ": ");
        body.extend(["const ", &names, " = ", &module, ";\n"]);
    }
}

/// Returns the lines that are not a comment, nor a part of one, without their indentation.
fn without_comments(source: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    source.lines().map(str::trim_start).filter(move |line| {
        let line = line.trim_end();
        let (starts, ends) = (line.starts_with("/**"), line.contains("*/"));
        let is_comment =
            inside || line.starts_with("//") || (starts && (!ends || line.ends_with("*/")));
        inside = (inside || starts) && !ends;
        !is_comment
    })
}

/// Returns the path of a module that the module at `path` names.
fn beside(path: &str, named: &str) -> String {
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    for part in named.split('/') {
        match part {
            "." => {}
            ".." => drop(folders.pop()),
            part => folders.push(part),
        }
    }
    folders.join("/")
}

/// Returns the constant for the exports of a module. The modules have no names with a dollar sign.
fn constant(path: &str) -> String {
    let path = path.trim_end_matches(".js");
    format!(
        "${}",
        path.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    )
}

/// Returns the name that a declaration declares.
fn name(declaration: &str) -> String {
    let declaration = declaration.trim_start_matches("async ");
    let (_kind, rest) = declaration.split_once(' ').unwrap_or_default();
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    rest.chars().take_while(is_part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_runs_after_its_imports() {
        let read = |path: &str| {
            let text = match path {
                "m/frame.js" => {
                    "import * as list from \"./pages/list.js\";\nimport { h as make,\n  say } from \"./kit.js\";\n"
                }
                "m/pages/list.js" => {
                    "import { h } from \"../kit.js\";\nexport const open = () => h();\n"
                }
                "m/kit.js" => {
                    "export * from \"./h.js\";\nexport async function say(text) {\n  h();\n}\n"
                }
                "m/h.js" => {
                    "// Makes elements.\nexport class H {}\n/**\n * An element.\n */\nexport function h() {}\n/** One. */\n/** @type {H} */ (h());\n"
                }
                _ => return None,
            };
            Some(text.to_owned())
        };
        let expected = "\
            // m/h.js\nconst $m_h = (() => {\nclass H {}\nfunction h() {}\n/** @type {H} */ (h());\nreturn { H, h };\n})();\n\
            // m/kit.js\nconst $m_kit = (() => {\nasync function say(text) {\nh();\n}\nreturn { ...$m_h, say };\n})();\n\
            // m/pages/list.js\nconst $m_pages_list = (() => {\nconst { h } = $m_kit;\nconst open = () => h();\n\
            return { open };\n})();\n\
            // m/frame.js\nconst $m_frame = (() => {\nconst list = $m_pages_list;\n\
            const { h: make, say } = $m_kit;\nreturn {  };\n})();\n";
        assert_eq!(join("m/frame.js", &read), expected);
    }
}
