//! Writes the first inputs of a target: `seed mark|detect|profile FOLDER`. Texts come from the
//! folder that `CUTTER_CORPUS` names, and from a few lines that are here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Larger documents are cut to their beginning.
const MAX_BYTES: usize = 6 << 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, target, folder] = arguments.as_slice() else {
        eprintln!("usage: seed mark|detect|profile FOLDER");
        return ExitCode::from(2);
    };
    match write(target, Path::new(folder)) {
        Ok(count) => {
            println!("{count} first inputs in {folder}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(target: &str, folder: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let mut count = 0;
    let mut put = |bytes: &[u8]| {
        count += 1;
        std::fs::write(folder.join(format!("seed-{count:05}")), bytes)
    };
    let texts = texts()?;
    match target {
        "detect" => texts.iter().try_for_each(|text| put(text))?,
        "profile" => cutter_fuzz::profile_seeds().iter().try_for_each(|input| put(input))?,
        _ => {
            for text in &texts {
                let detected = cutter_fuzz::head(text);
                put(&[&detected[..], text].concat())?;
            }
        }
    }
    Ok(count)
}

fn texts() -> std::io::Result<Vec<Vec<u8>>> {
    let mut found: Vec<Vec<u8>> = cutter_fuzz::TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    match std::env::var_os("CUTTER_CORPUS") {
        None => eprintln!("note: CUTTER_CORPUS is not set: no real documents among the first inputs"),
        Some(corpus) => walk(&PathBuf::from(corpus), &mut found)?,
    }
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|e| ["md", "txt", "rst", "xml"].iter().any(|x| e == *x)) {
            let mut text = std::fs::read(&path)?;
            // From the middle too, where the articles are.
            if text.len() > 4 * MAX_BYTES {
                let at = text.len() / 2;
                found.push(text[at..at + MAX_BYTES].to_vec());
            }
            text.truncate(MAX_BYTES);
            found.push(text);
        }
    }
    Ok(())
}
