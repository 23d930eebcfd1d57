//! Images in a folder, masks of the same names in another.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{key, volumes_in, wrong};
use crate::SourceError;
use crate::volumes::VolumePaths;

/// What a mask's name may have behind the image's.
const OF_MASKS: [&str; 12] = [
    "_seg",
    "_mask",
    "_label",
    "_labels",
    "_segmentation",
    "_gt",
    "-seg",
    "-mask",
    "-label",
    "-labels",
    "-segmentation",
    "-gt",
];
/// What an image's name may have that its mask's has not.
const OF_IMAGES: [&str; 5] = ["_0000", "_image", "_img", "-image", "-img"];

/// All volumes in the folder `images` and below it, and the mask of each in the folder `masks`: the one of the same
/// name, up to the ending, that may have `_seg`, `_mask`, `_label`, `_segmentation` or `_gt` behind it. An image's name
/// may end in `_0000`, `_image` or `_img`, which its mask's need not have. Both folders may be the same.
pub fn folders(images: &Path, masks: Option<&Path>) -> Result<Vec<VolumePaths>, SourceError> {
    let found = volumes_in(images)?;
    let Some(mask_folder) = masks else {
        return found
            .into_iter()
            .map(|path| {
                Ok(VolumePaths { name: key(images, &path)?, images: vec![path], mask: None })
            })
            .collect();
    };
    let mut by_key: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for path in volumes_in(mask_folder)? {
        by_key.entry(key(mask_folder, &path)?).or_default().push(path);
    }
    let together = images == mask_folder;
    let mut samples = Vec::new();
    for path in found {
        let name = key(images, &path)?;
        if together && OF_MASKS.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        let plain = OF_IMAGES.iter().find_map(|ending| name.strip_suffix(ending));
        let mut wanted = Vec::new();
        for base in std::iter::once(name.as_str()).chain(plain) {
            // In one folder an image is not its own mask.
            wanted.extend((!together).then(|| base.to_string()));
            wanted.extend(OF_MASKS.iter().map(|ending| format!("{base}{ending}")));
        }
        let there: Vec<&PathBuf> =
            wanted.iter().filter_map(|key| by_key.get(key)).flatten().collect();
        let mask = match there[..] {
            [mask] => mask.clone(),
            [] => {
                let folder = super::shown(mask_folder);
                return Err(wrong(
                    &path,
                    format!(
                        "has no mask in `{folder}`: none there is called {name}, up to its ending, or that \
                         with _seg, _mask, _label, _segmentation or _gt behind it; rename it, or pass a list of pairs"
                    ),
                ));
            }
            [first, second, ..] => {
                let (first, second) = (super::shown(first), super::shown(second));
                let what = format!("has two masks, `{first}` and `{second}`; remove one of them");
                return Err(wrong(&path, what));
            }
        };
        samples.push(VolumePaths { name, images: vec![path], mask: Some(mask) });
    }
    if samples.is_empty() {
        return Err(wrong(images, "has masks and no image; give the folder of the images"));
    }
    Ok(samples)
}
