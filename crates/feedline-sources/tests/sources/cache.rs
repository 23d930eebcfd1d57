use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_core::{
    Batch, Cause, DType, Dataset, Field, Loader, Ragged, Sample, SampleIndex, Stage,
};
use feedline_sources::SourceError;
use feedline_sources::cache::{Cached, DiskStore, MemoryStore, Store};

const SAMPLES: u64 = 40;

/// A sample of every form of field, and how often one was made.
#[derive(Default)]
struct Costly {
    loads: AtomicU64,
    builds: AtomicU64,
}

impl Dataset for Costly {
    fn len(&self) -> u64 {
        SAMPLES
    }
    fn fields(&self) -> Vec<Field> {
        vec![
            Field::fixed("square", DType::U64, [2]),
            Field::ragged("ones", DType::F32, [None], Ragged::PadToLongest { fill: -1.0 }),
            Field::ragged("pairs", DType::I16, [None, Some(2)], Ragged::Packed),
            Field::text("word"),
            Field::bytes("bytes"),
            Field::fixed("nothing", DType::F64, [3, 0]),
        ]
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        raw.extend(index.0.to_le_bytes());
        Ok(())
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        self.builds.fetch_add(1, Ordering::Relaxed);
        let i = u64::from_le_bytes(raw.try_into()?);
        assert_eq!(i, sample.index().0);
        sample.begin(Stage::Transform);
        let length = (i % 5) as usize;
        sample.put(0, &[i * i, i])?;
        sample.put(1, &vec![1.0f32; length])?;
        sample.put_shaped(2, &[length, 2], &vec![i as i16; 2 * length])?;
        sample.put_bytes(3, "wört".repeat(length).as_bytes())?;
        sample.put_bytes(4, &vec![i as u8; length])?;
        Ok(sample.put::<f64>(5, &[])?)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("sample {}", index.0))
    }
}

impl Costly {
    fn made(&self) -> (u64, u64) {
        (self.loads.load(Ordering::Relaxed), self.builds.load(Ordering::Relaxed))
    }
}

/// Everything that an epoch delivers, as bytes.
fn contents(dataset: Arc<dyn Dataset>) -> Vec<Vec<u8>> {
    let loader = Loader::builder(dataset).batch_size(7).workers(2).epochs(1).build().unwrap();
    let batches: Vec<Batch> = loader.epoch().map(|batch| batch.unwrap()).collect();
    batches.iter().flat_map(Batch::arrays).map(|array| array.as_bytes().to_vec()).collect()
}

fn on_disk(folder: &Path, limit: u64) -> (Arc<Costly>, Arc<Cached<Costly, DiskStore>>) {
    let costly = Arc::new(Costly::default());
    let store = DiskStore::open(folder, &*costly, "recipe", limit).unwrap();
    (Arc::clone(&costly), Arc::new(Cached::new(costly, store)))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let list = |path: &Path| {
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let folders = list(folder).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<_> = folders.flat_map(|shard| list(&shard)).collect();
    files.sort_by_key(|path| path.file_name().unwrap().to_owned());
    files
}

fn bytes_of(entries: &[PathBuf]) -> u64 {
    entries.iter().map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn what_is_kept_in_memory_is_made_once_and_stays_the_same() {
    let expected = contents(Arc::new(Costly::default()));
    let costly = Arc::new(Costly::default());
    let cached = Arc::new(Cached::new(Arc::clone(&costly), MemoryStore::new(1 << 20)));
    for _ in 0..3 {
        assert_eq!(contents(cached.clone()), expected);
    }
    assert_eq!(costly.made(), (SAMPLES, SAMPLES));
    assert_eq!(cached.origin(SampleIndex(3)).unwrap(), "sample 3");
}

#[test]
fn memory_is_used_up_to_the_limit_and_no_further() {
    for limit in [0, 1, 500, 1500] {
        let costly = Arc::new(Costly::default());
        let cached = Arc::new(Cached::new(Arc::clone(&costly), MemoryStore::new(limit)));
        let expected = contents(cached.clone());
        assert_eq!(contents(cached.clone()), expected);
        let used = cached.store().used();
        assert!(used <= limit, "{used} of {limit}");
        let (made, _) = costly.made();
        assert!(made > SAMPLES, "some had to be made again");
        assert_eq!(limit >= 500, made < 2 * SAMPLES && used > 0, "{limit}: {made}, {used}");
    }
}

#[test]
fn what_is_on_disk_outlives_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let expected = contents(Arc::new(Costly::default()));
    let (first, cached) = on_disk(dir.path(), 1 << 20);
    assert_eq!(contents(cached.clone()), expected);
    assert_eq!(cached.store().used(), bytes_of(&entries(dir.path())));
    drop(cached);
    let (second, cached) = on_disk(dir.path(), 1 << 20);
    assert_eq!(contents(cached.clone()), expected);
    assert_eq!((first.made().1, second.made()), (SAMPLES, (0, 0)));
    assert_eq!(cached.store().used(), bytes_of(&entries(dir.path())));
}

#[test]
fn damaged_entries_are_made_anew_and_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_, cached) = on_disk(dir.path(), 1 << 20);
    let expected = contents(cached.clone());
    let files = entries(dir.path());
    let used = bytes_of(&files);
    std::fs::write(&files[0], b"").unwrap();
    std::fs::write(&files[1], vec![0xff; 100]).unwrap();
    let mut bytes = std::fs::read(&files[2]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&files[2], &bytes).unwrap();
    bytes.truncate(20);
    std::fs::write(&files[3], &bytes).unwrap();
    std::fs::remove_file(&files[4]).unwrap();
    drop(cached);
    for made in [5, 0] {
        let (costly, cached) = on_disk(dir.path(), 1 << 20);
        assert_eq!(contents(cached.clone()), expected);
        assert_eq!(costly.made().1, made);
        assert_eq!(cached.store().used(), used);
    }
}

#[test]
fn entries_of_other_samples_and_other_pipelines_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let expected = contents(on_disk(dir.path(), 1 << 20).1);
    let files = entries(dir.path());
    let aside = dir.path().join("aside");
    for (from, to) in [(&files[3], &aside), (&files[5], &files[3]), (&aside, &files[5])] {
        std::fs::rename(from, to).unwrap();
    }
    // The same samples, made otherwise.
    let elsewhere = tempfile::tempdir().unwrap();
    let costly = Arc::new(Costly::default());
    let store = DiskStore::open(elsewhere.path(), &*costly, "another recipe", 1 << 20).unwrap();
    contents(Arc::new(Cached::new(costly, store)));
    std::fs::copy(&entries(elsewhere.path())[9], &files[9]).unwrap();
    for made in [3, 0] {
        let (costly, cached) = on_disk(dir.path(), 1 << 20);
        assert_eq!(contents(cached), expected);
        assert_eq!(costly.made().1, made);
    }
}

#[test]
fn a_count_that_is_cut_off_or_gone_costs_nothing_but_keeping() {
    let expected = contents(Arc::new(Costly::default()));
    for damage in [
        |path: &Path| std::fs::File::create(path).map(drop).unwrap(),
        |path: &Path| std::fs::write(path, b"123").unwrap(),
        |path: &Path| std::fs::remove_file(path).unwrap(),
        |path: &Path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        },
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (costly, cached) = on_disk(dir.path(), 1 << 20);
        damage(&dir.path().join("used"));
        for _ in 0..2 {
            assert_eq!(contents(cached.clone()), expected);
        }
        assert!(costly.made().1 >= SAMPLES);
        assert_eq!(cached.store().used(), bytes_of(&entries(dir.path())));
    }
}

#[cfg(unix)]
#[test]
fn entries_that_are_pipes_folders_or_grew_are_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let expected = contents(on_disk(dir.path(), 1 << 20).1);
    let files = entries(dir.path());
    std::fs::remove_file(&files[0]).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&files[0]).status();
    assert!(made.unwrap().success());
    std::fs::remove_file(&files[1]).unwrap();
    std::fs::create_dir(&files[1]).unwrap();
    let grown = std::fs::File::options().write(true).open(&files[2]).unwrap();
    grown.set_len(1 << 43).unwrap();
    let (costly, cached) = on_disk(dir.path(), 1 << 45);
    assert_eq!(contents(cached.clone()), expected);
    assert_eq!(costly.made().1, 3);
    drop(cached);
    let (costly, cached) = on_disk(dir.path(), 1 << 45);
    assert_eq!(contents(cached), expected);
    assert_eq!(costly.made().1, 1, "a folder cannot be replaced by an entry");
}

#[test]
fn an_entry_that_grew_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    contents(on_disk(dir.path(), 1 << 20).1);
    let grown = std::fs::File::options().write(true).open(&entries(dir.path())[0]).unwrap();
    // There is memory for so much.
    grown.set_len(1 << 29).unwrap();
    let (_, cached) = on_disk(dir.path(), 1 << 30);
    let mut sample = Vec::new();
    assert!(!cached.store().get(SampleIndex(0), &mut sample));
    assert!(sample.capacity() < 1 << 20, "{} bytes", sample.capacity());
}

#[cfg(unix)]
#[test]
fn files_of_the_folder_that_are_pipes_or_without_end_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let about = dir.path().join("about.txt");
    let open = || DiskStore::open(dir.path(), &Costly::default(), "", 1 << 20).map(drop);
    let made = std::process::Command::new("mkfifo").arg(&about).status();
    assert!(made.unwrap().success());
    assert!(open().unwrap_err().to_string().contains("about.txt"));
    std::fs::remove_file(&about).unwrap();
    std::fs::File::create(&about).unwrap().set_len(1 << 43).unwrap();
    assert!(open().unwrap_err().to_string().contains("about.txt"));
    std::fs::remove_file(&about).unwrap();
    for name in ["open", "used"] {
        let path = dir.path().join(name);
        let _ = std::fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let message = open().unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("no regular file"), "{message}");
        std::fs::remove_file(&path).unwrap();
    }
    open().unwrap();
}

#[test]
fn what_else_is_in_the_folder_is_left_alone_and_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("mine");
    std::fs::create_dir(&other).unwrap();
    for name in ["work.tmp", "work.dat"] {
        std::fs::write(other.join(name), vec![0; 5000]).unwrap();
    }
    let (_, cached) = on_disk(dir.path(), 1 << 20);
    assert!(other.join("work.tmp").exists());
    assert_eq!(cached.store().used(), 0);
}

#[test]
fn a_full_folder_still_heals_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    contents(on_disk(dir.path(), 1 << 20).1);
    let files = entries(dir.path());
    let used = bytes_of(&files);
    let length = files[7].metadata().unwrap().len();
    std::fs::write(&files[7], vec![0; length as usize]).unwrap();
    for made in [1, 0] {
        let (costly, cached) = on_disk(dir.path(), used);
        contents(cached);
        assert_eq!(costly.made().1, made);
    }
}

#[test]
fn the_folder_grows_to_the_limit_and_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let expected = contents(Arc::new(Costly::default()));
    for _ in 0..2 {
        let (_, cached) = on_disk(dir.path(), 1000);
        assert_eq!(contents(cached.clone()), expected);
        let used = bytes_of(&entries(dir.path()));
        assert!((500..=1000).contains(&used), "{used}");
        assert_eq!(cached.store().used(), used);
    }
}

#[test]
fn several_may_fill_one_folder_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let expected = contents(Arc::new(Costly::default()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (_, cached) = on_disk(dir.path(), 1 << 20);
                assert_eq!(contents(cached), expected);
            });
        }
    });
    assert_eq!(entries(dir.path()).len(), SAMPLES as usize, "and nothing else is left there");
    let (costly, cached) = on_disk(dir.path(), 1 << 20);
    assert_eq!(contents(cached), expected);
    assert_eq!(costly.made(), (0, 0));
}

#[test]
fn what_a_process_that_died_has_left_is_removed_by_the_next_that_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    contents(on_disk(dir.path(), 1 << 20).1);
    let files = entries(dir.path());
    let left = files[0].with_extension("1-0.tmp");
    std::fs::write(&left, b"half a sample").unwrap();
    std::fs::write(dir.path().join("used"), u64::MAX.to_le_bytes()).unwrap();
    let (_, cached) = on_disk(dir.path(), 1 << 20);
    assert!(!left.exists());
    assert_eq!(cached.store().used(), bytes_of(&files));
    std::fs::write(&left, b"being written").unwrap();
    let (_, _second) = on_disk(dir.path(), 1 << 20);
    assert!(left.exists(), "not while somebody else is there");
}

#[test]
fn a_folder_of_other_samples_is_refused_and_says_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let open = |recipe| DiskStore::open(dir.path(), &Costly::default(), recipe, 1 << 20);
    drop(open("crop(224)").unwrap());
    let refused = open("crop(299)").err().unwrap();
    assert!(matches!(&refused, SourceError::OtherCache { .. }));
    let message = refused.to_string();
    for piece in ["crop(224)", "crop(299)", "40", "use another folder or empty it"] {
        assert!(message.contains(piece), "{piece}: {message}");
    }
    assert!(open("crop(224)").is_ok(), "and is none the worse");
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let refused = DiskStore::open(&file.join("cache"), &Costly::default(), "", 1).err().unwrap();
    assert!(matches!(&refused, SourceError::Io { doing: "make", .. }));
    assert!(refused.to_string().contains("cache"), "{refused}");
}
