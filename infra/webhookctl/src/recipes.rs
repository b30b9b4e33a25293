//! The recipes of receivers: the files of `infra/examples`.
//!
//! The files have the name `stripe-main` for the source and for its secret, and the path
//! `/webhooks`. A recipe for another source has the values of this source instead.

use reqwest::Url;
use serde::Serialize;

/// A file of a recipe: its path in the folder, and its text.
type Embedded = (&'static str, &'static str);

/// The files of a recipe. The first one receives the events.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    files: &'static [Embedded],
}

/// The kind of the action that sends the events to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Lambda,
    Sqs,
}

/// The values that a recipe gets from a source.
pub(crate) struct Values<'v> {
    pub(crate) source: &'v str,
    pub(crate) preset: &'v str,
    pub(crate) destination: Destination<'v>,
}

pub(crate) enum Destination<'v> {
    Http {
        secret: &'v str,
        /// `None` keeps the path of the recipe.
        path: Option<String>,
    },
    Lambda {
        function: &'v str,
    },
    Sqs {
        queue: &'v str,
    },
}

/// A file to print or to write.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

macro_rules! recipe {
    ($name:literal, $kind:ident, [$($file:literal),+]) => {
        Recipe {
            name: $name,
            kind: Kind::$kind,
            files: &[$((
                $file,
                include_str!(concat!("../../examples/", $name, "/", $file)),
            )),+],
        }
    };
}

/// `package-lock.json` is left out: a lock belongs to the project of the receiver.
const RECIPES: [Recipe; 11] = [
    recipe!("express", Http, ["server.js", "package.json", "README.md"]),
    recipe!("fastify", Http, ["server.js", "package.json", "README.md"]),
    recipe!(
        "nextjs",
        Http,
        [
            "app/webhooks/route.js",
            "next.config.mjs",
            "package.json",
            "README.md"
        ]
    ),
    recipe!(
        "fastapi",
        Http,
        ["main.py", "requirements.txt", "README.md"]
    ),
    recipe!("flask", Http, ["app.py", "requirements.txt", "README.md"]),
    recipe!(
        "django",
        Http,
        [
            "receiver/views.py",
            "receiver/models.py",
            "receiver/urls.py",
            "receiver/settings.py",
            "receiver/__init__.py",
            "receiver/migrations/__init__.py",
            "receiver/migrations/0001_initial.py",
            "manage.py",
            "requirements.txt",
            "README.md"
        ]
    ),
    recipe!("go", Http, ["main.go", "go.mod", "README.md"]),
    recipe!(
        "lambda-node",
        Lambda,
        ["index.mjs", "package.json", "README.md"]
    ),
    recipe!(
        "lambda-python",
        Lambda,
        ["handler.py", "requirements.txt", "README.md"]
    ),
    recipe!("sqs-node", Sqs, ["index.mjs", "package.json", "README.md"]),
    recipe!(
        "sqs-python",
        Sqs,
        ["handler.py", "requirements.txt", "README.md"]
    ),
];

pub(crate) fn names() -> [&'static str; RECIPES.len()] {
    RECIPES.map(|recipe| recipe.name)
}

impl Kind {
    /// Returns the kind as a sources file has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Lambda => "lambda",
            Self::Sqs => "sqs",
        }
    }
}

impl Recipe {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        const ALL: &[Recipe] = &RECIPES;
        ALL.iter().find(|recipe| recipe.name == name)
    }

    /// Returns the files as they are in `infra/examples`.
    pub(crate) fn unchanged(&self) -> Vec<File> {
        self.with(&[])
    }

    /// Returns the files with the values of a source.
    pub(crate) fn filled(&self, values: &Values<'_>) -> Vec<File> {
        self.with(&values.replacements())
    }

    fn with(&self, replacements: &[(&str, String)]) -> Vec<File> {
        let fill = |text: &str| {
            let texts = replacements.iter();
            texts.fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
        };
        let files = self.files.iter().map(|(path, text)| File {
            path: fill(path),
            text: fill(text),
        });
        files.collect()
    }
}

impl Values<'_> {
    /// Returns the texts to replace, in this order. `\0` stands for the name of the secret, so that
    /// it is not replaced as the name of the source.
    fn replacements(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("--preset stripe", format!("--preset {}", self.preset))];
        if let Destination::Http { .. } = self.destination {
            all.push(("the secret stripe-main", "the secret \0".to_owned()));
            all.push(("secrets put stripe-main", "secrets put \0".to_owned()));
        }
        all.push(("stripe-main", self.source.to_owned()));
        match &self.destination {
            Destination::Http { secret, path } => {
                all.push(("\0", (*secret).to_owned()));
                if let Some(path) = path {
                    let parts = path.trim_end_matches('/');
                    // The path is a folder in Next.js, and has no first slash in Django.
                    all.push(("app/webhooks/", format!("app{parts}/")));
                    let django = format!("path(\"{}\"", path.trim_start_matches('/'));
                    all.push(("path(\"webhooks\"", django));
                    all.push(("/webhooks", path.clone()));
                }
            }
            Destination::Lambda { function } => {
                all.push(("\"receiver\"", format!("{function:?}")));
            }
            Destination::Sqs { queue } => {
                let example = "\"https://sqs.eu-central-1.amazonaws.com/111122223333/receiver\"";
                all.push((example, format!("{queue:?}")));
            }
        }
        all
    }
}

/// Returns the path of a URL. Returns `None` if a framework would read a part of the path as a
/// pattern, for example the placeholder `{account}`.
pub(crate) fn literal_path(url: &str) -> Option<String> {
    // `Url` would encode the braces of a placeholder.
    let url = Url::parse(url).ok()?;
    let path = url.path();
    let is_plain = |part: &str| {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        !part.starts_with('_') && part.chars().all(legal)
    };
    // Next.js redirects a path with a slash at its end.
    let is_literal = path == "/" || path.split('/').skip(1).all(|part| !part.is_empty());
    (is_literal && path.split('/').all(is_plain)).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// What installing and running a recipe leaves in its folder, and what stays in this repository.
    const NOT_OF_THE_RECIPE: [&str; 6] = [
        "node_modules",
        ".next",
        "__pycache__",
        "package-lock.json",
        "go.sum",
        "receiver.db",
    ];

    fn examples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
    }

    fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.to_owned(), path)
        });
        let entries = entries.filter(|(name, _)| !NOT_OF_THE_RECIPE.contains(&name.as_str()));
        entries.collect()
    }

    fn files_below(folder: &Path, at: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (name, path) in entries(folder) {
            if path.is_dir() {
                found.extend(files_below(&path, &format!("{at}{name}/")));
            } else {
                found.insert(format!("{at}{name}"));
            }
        }
        found
    }

    #[test]
    fn every_file_of_the_examples_is_in_the_recipes() {
        let folders: BTreeSet<String> = entries(&examples())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        // The pages link to the workers. They need an action of kind `pull` and the file of a client.
        let workers = ["inngest-node", "langgraph-python", "temporal-python"];
        let all = names().into_iter().chain(workers).map(str::to_owned);
        assert_eq!(folders, all.collect());
        for recipe in &RECIPES {
            let files = recipe.unchanged();
            let embedded: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
            let folder = examples().join(recipe.name);
            assert_eq!(embedded, files_below(&folder, ""), "{}", recipe.name);
            for file in files {
                let text = std::fs::read_to_string(folder.join(&file.path)).unwrap();
                assert_eq!(file.text, text, "{}/{}", recipe.name, file.path);
            }
        }
    }

    #[test]
    fn a_recipe_has_the_values_of_its_source() {
        for recipe in &RECIPES {
            let (destination, own) = match recipe.kind {
                Kind::Http => (
                    Destination::Http {
                        secret: "stripe-main-app",
                        path: Some("/hooks/shop".into()),
                    },
                    ["hooks/shop", "secrets put stripe-main-app --egress"],
                ),
                Kind::Lambda => (
                    Destination::Lambda {
                        function: "orders:live",
                    },
                    ["function = \"orders:live\"", "send shop --wait"],
                ),
                Kind::Sqs => (
                    Destination::Sqs {
                        queue: "https://sqs.example.com/1/orders.fifo",
                    },
                    [
                        "queue = \"https://sqs.example.com/1/orders.fifo\"",
                        "send shop --wait",
                    ],
                ),
            };
            let files = recipe.filled(&Values {
                source: "shop",
                preset: "shopify",
                destination,
            });
            let all: String = files.iter().map(|file| file.text.as_str()).collect();
            for text in own {
                assert!(all.contains(text), "{}: {text}", recipe.name);
            }
            assert!(files[0].text.contains("the source shop"), "{}", recipe.name);
            let rest = all.replace("stripe-main-app", "");
            for old in [
                "stripe-main",
                "preset stripe",
                "/webhooks",
                "\"webhooks\"",
                "\0",
            ] {
                assert!(!rest.contains(old), "{}: {old}", recipe.name);
            }
        }
    }

    #[test]
    fn the_path_of_next_js_is_a_folder() {
        let at = |path: &str| {
            let files = Recipe::named("nextjs").unwrap().filled(&Values {
                source: "shop",
                preset: "shopify",
                destination: Destination::Http {
                    secret: "shop",
                    path: Some(path.into()),
                },
            });
            files[0].path.clone()
        };
        assert_eq!(at("/hooks/shop"), "app/hooks/shop/route.js");
        assert_eq!(at("/"), "app/route.js");
    }

    #[test]
    fn only_a_literal_path_is_used() {
        let path = |rest: &str| literal_path(&format!("https://app.example.com{rest}"));
        for (rest, used) in [
            ("/hooks/shop_1?a=b", "/hooks/shop_1"),
            ("/.well-known/x", "/.well-known/x"),
            ("", "/"),
            ("/?a=b", "/"),
        ] {
            assert_eq!(path(rest).as_deref(), Some(used), "{rest}");
        }
        for rest in [
            "/{account}",
            "/a/",
            "/a//b",
            "/_a",
            "/:id",
            "/a%20b",
            "/(a)",
            "/'",
        ] {
            assert_eq!(path(rest), None, "{rest}");
        }
        assert_eq!(literal_path("no url"), None);
    }
}
