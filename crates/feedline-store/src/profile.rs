//! Keys and region from the files of the `aws` command: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::error::{Kind, StoreError};

/// What a profile says, by the names that the client has for it.
///
/// `wanted` is the profile that was asked for; without, the one of `AWS_PROFILE`, or `default`. One that was
/// asked for must be there, and have keys.
pub(crate) fn settings(
    root: &str,
    wanted: Option<&str>,
) -> Result<BTreeMap<&'static str, String>, StoreError> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let asked = wanted.map(str::to_string).or_else(|| set("AWS_PROFILE"));
    let name = asked.clone().unwrap_or_else(|| "default".to_string());
    let home = || set("HOME").map(PathBuf::from);
    let file = |variable: &str, usual: &str| {
        set(variable).map(PathBuf::from).or_else(|| Some(home()?.join(".aws").join(usual)))
    };
    let read = |path: Option<PathBuf>| {
        path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let credentials = read(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
    let config = read(file("AWS_CONFIG_FILE", "config"));
    let of_config = if name == "default" { name.clone() } else { format!("profile {name}") };
    let mut said = section(&config, &of_config);
    said.extend(section(&credentials, &name));
    let has_keys = said.contains_key("access_key_id");
    if asked.is_some() && !has_keys {
        let what = match said.is_empty() {
            true => format!("there is no profile {name} in ~/.aws/credentials or ~/.aws/config"),
            false => format!("profile {name} has no keys of its own"),
        };
        let advice = "name one that has aws_access_key_id and aws_secret_access_key, or let the aws command \
                      put them into the environment: `eval $(aws configure export-credentials --format env)`";
        return Err(StoreError::new(Kind::Option, "open", root.to_string(), what, advice));
    }
    Ok(said)
}

/// The settings of one section that we know.
fn section(text: &str, name: &str) -> BTreeMap<&'static str, String> {
    let (mut said, mut inside) = (BTreeMap::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = title.split_whitespace().eq(name.split_whitespace());
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            let known = match key.trim() {
                "aws_access_key_id" => "access_key_id",
                "aws_secret_access_key" => "secret_access_key",
                "aws_session_token" => "session_token",
                "region" => "region",
                "endpoint_url" => "endpoint_url",
                _ => continue,
            };
            said.insert(known, value.trim().to_string());
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_says_what_stands_in_it_alone() {
        let text = "[default]\nregion = eu-central-1\n[profile  lab]\n# no\naws_access_key_id=A\n\
                    aws_secret_access_key = S=1\noutput = json\n[profile x]\nregion=us-east-1\n";
        let lab = section(text, "profile lab");
        assert_eq!(lab.len(), 2);
        assert_eq!(
            (lab["access_key_id"].as_str(), lab["secret_access_key"].as_str()),
            ("A", "S=1")
        );
        assert!(section(text, "profile la").is_empty());
    }
}
