//! `cutter profile`: the conventions that documents are cut by.

mod choose;
mod report;

pub(crate) use choose::{AUTO, Chosen, Depth, choose};

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cutter_core::base::limits;
use cutter_core::text::profile::{Format, PROFILE_SCHEMA_PAGE, Profile};
use serde_json::json;

use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::files::read_bounded;
use crate::render;

/// Conventions of documents: list, show, test and explain them.
///
/// A profile says how documents of one convention are cut: which words and numbers designate
/// a chapter or an article, how divisions nest, how deep the cut goes. It is a JSON file.
/// `--profile auto`, the default of every command that cuts, detects the built-in one that
/// fits; a name or the path of a file of your own overrides it.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Show(ShowArgs),
    Test(TestArgs),
    Explain(ExplainArgs),
}

/// List the built-in profiles.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter profile list
  cutter profile list --json | jq -r '.profiles[].name'")]
struct ListArgs {}

/// Print a profile as its author wrote it, or what each field means.
///
/// The easiest way to a profile of your own: save the built-in one that comes closest, give
/// it another name, change it, and try it with `cutter profile test`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter profile show de > mine.json
  cutter profile show ./mine.json --json
  cutter profile show --schema")]
struct ShowArgs {
    /// A built-in profile's name, or the path of a profile.
    #[arg(value_name = "NAME|FILE", required_unless_present = "schema")]
    name: Option<String>,
    /// Print what each field means.
    #[arg(long, conflicts_with = "name")]
    schema: bool,
}

/// What `test` and `explain` cut.
#[derive(Debug, Args)]
struct Cut {
    /// A document: UTF-8 text.
    file: PathBuf,
    /// `auto`, a built-in profile's name, or the path of a profile.
    #[arg(long, value_name = "NAME|FILE", default_value = AUTO)]
    profile: String,
    /// How deep: a number of levels, or a kind such as article, clause, point.
    #[arg(long, value_name = "N|KIND")]
    depth: Option<Depth>,
}

impl Cut {
    fn choose(&self) -> Result<(Vec<u8>, Chosen), Failure> {
        // The profile's own faults come before the document's.
        if self.profile != AUTO {
            choose::load(&self.profile)?;
        }
        let text = read_bounded(&self.file, limits::MAX_DOCUMENT_BYTES)?;
        let chosen = choose(&self.profile, self.depth.as_ref(), &text, &report::limits())?;
        Ok((text, chosen))
    }
}

/// Cut a document and count what comes out.
///
/// Prints units, articles, duplicate addresses, empty units, missing numbers, the biggest
/// unit, the units of each kind, and every warning with its line. Ends with 2, naming file
/// and field, if the profile cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter profile test law.md --profile ./mine.json
  cutter profile test law.md
  cutter profile test law.md --profile de --depth clause --json | jq .kinds")]
struct TestArgs {
    #[command(flatten)]
    cut: Cut,
}

/// Show why a document is cut as it is.
///
/// All profiles with any evidence, by score; what the cut costs with the chosen one and with
/// the runner-up; and for the first lines why they start a unit, or why not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter profile explain law.md
  cutter profile explain law.md --profile ./mine.json --lines 40
  cutter profile explain law.md --json | jq '.ranking[0]'")]
struct ExplainArgs {
    #[command(flatten)]
    cut: Cut,
    /// So many lines that start a unit, and so many that do not.
    #[arg(long, value_name = "N", default_value_t = 8)]
    lines: u16,
}

pub(crate) fn run(cx: &Context, args: &ProfileArgs) -> Outcome {
    match &args.command {
        Command::List(ListArgs {}) => list(cx),
        Command::Show(args) => show(cx, args),
        Command::Test(args) => {
            let (text, chosen) = args.cut.choose()?;
            report::test(cx, &args.cut.file, &text, &chosen)
        }
        Command::Explain(args) => {
            let (text, chosen) = args.cut.choose()?;
            report::explain(cx, &args.cut.file, &text, &chosen, usize::from(args.lines))
        }
    }
}

const fn format_word(format: Format) -> &'static str {
    match format {
        Format::Markdown => "markdown",
        Format::Text => "text",
        Format::Underlined => "underlined",
        Format::Xml => "xml",
    }
}

fn list(cx: &Context) -> Outcome {
    let profiles = choose::built_in()?;
    let machine = |p: &Profile| {
        json!({
            "name": p.name, "version": p.version, "languages": p.languages,
            "format": format_word(p.format), "description": p.description,
        })
    };
    let row = |p: &Profile| {
        let mut languages = p.languages.iter().take(3).cloned().collect::<Vec<_>>().join(" ");
        if p.languages.len() > 3 {
            languages.push_str(" …");
        }
        let format = format_word(p.format).to_owned();
        vec![p.name.clone(), p.version.to_string(), languages, format, p.description.clone()]
    };
    let people = || {
        let header = ["name", "version", "language", "format", "description"];
        render::table(&header, profiles.all().iter().map(row).collect())
    };
    cx.out.result(people, &json!({ "profiles": profiles.all().iter().map(machine).collect::<Vec<_>>() }))
}

fn show(cx: &Context, args: &ShowArgs) -> Outcome {
    let text = match &args.name {
        Some(name) => choose::source(name)?.0,
        None if cx.out.is_json() => {
            return cx.out.result(String::new, &json!({ "schema_page": PROFILE_SCHEMA_PAGE }));
        }
        None => PROFILE_SCHEMA_PAGE.to_owned(),
    };
    let end = if text.ends_with('\n') { "" } else { "\n" };
    cx.out.document(format!("{text}{end}").as_bytes())?;
    Ok(Exit::DONE)
}
