//! One cache and several processes, some of which are killed; a disk that is really full; and what a process by itself
//! takes for a long listing.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use feedline_s3_server::{ACCESS_KEY, SECRET_KEY};
use feedline_store::{Address, Bucket, Object, StoreOptions};

use super::{Store, noise};

/// What the process below is told: what it does, endpoint, bucket, cache folder, bytes of the cache.
const TOLD: &str = "FEEDLINE_TEST_READER";
const OBJECTS: usize = 40;
const LARGE: usize = 40 << 20;

fn content(number: usize) -> Vec<u8> {
    let mut content = noise(1000 + 1500 * number);
    content.iter_mut().for_each(|byte| *byte ^= number as u8);
    content
}

fn filled(name: &str) -> Store {
    let store = Store::new(name);
    (0..OBJECTS).for_each(|number| store.put(&number.to_string(), &content(number)));
    store
}

/// The reader, as a process of its own.
fn reader(does: &str, store: &Store, cache: &Path, bytes: u64) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "processes::reads_as_told", "--ignored", "--nocapture"]);
    let (endpoint, cache) = (store.server.endpoint(), cache.display());
    command.env(TOLD, format!("{does} {endpoint} {} {cache} {bytes}", store.bucket));
    command.stdout(Stdio::piped());
    command
}

/// Waits until the reader says something; says whether it ever does.
fn told(child: &mut Child, what: &str) -> bool {
    let out = BufReader::new(child.stdout.as_mut().unwrap());
    out.lines().any(|line| line.unwrap().contains(what))
}

/// All objects as they are, whole and in parts.
fn read_all(at: impl Fn(&str) -> Address) {
    for number in 0..OBJECTS {
        let (object, content) = (Object::open(&at(&number.to_string())).unwrap(), content(number));
        let (mut part, mut whole) = (Vec::new(), Vec::new());
        object.append_at(&mut part, 500, 400).unwrap();
        assert!(part == content[500..900], "part of {number}");
        object.append_at(&mut whole, 0, content.len()).unwrap();
        assert!(whole == content, "{number}");
    }
}

#[test]
#[ignore = "it is a process that the tests below start"]
#[allow(clippy::print_stdout, reason = "they listen")]
fn reads_as_told() {
    let Ok(told) = env::var(TOLD) else { return };
    let [does, endpoint, bucket, cache, bytes] =
        told.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let at = |key: &str| Address::parse(&format!("s3://{bucket}/{key}")).unwrap();
    let given = [
        ("endpoint", endpoint),
        ("access_key_id", ACCESS_KEY),
        ("secret_access_key", SECRET_KEY),
        ("region", "us-east-1"),
        ("hedge", "false"),
        ("cache_dir", cache),
        ("cache_size", bytes),
    ];
    let given = given.into_iter().chain([("listing_max_age", "3600")]);
    let given = given.map(|(name, value)| (name.to_string(), value.to_string()));
    let options = StoreOptions::parse(&at("").root, given).unwrap();
    Bucket::configure(&at(""), options).unwrap();
    match does {
        "ever" => loop {
            read_all(at);
            println!("round");
        },
        "thrice" => (0..3).for_each(|_| read_all(at)),
        "list" => {
            let mut said = Vec::new();
            // Asked of the store, and from what is kept.
            for _ in 0..2 {
                said.push(list_all(&at("")));
            }
            assert_eq!(said[0], said[1]);
            println!("{} objects with the names' sum {}", said[0].0, said[0].1);
        }
        "keep" => assert!(Object::open(&at("large")).unwrap().keep(|| false).unwrap()),
        "full" => {
            let open = Bucket::of(&at("")).unwrap();
            read_all(at);
            let told = Bucket::in_use();
            let refused = told[0].not_kept.as_ref().unwrap();
            assert!(refused.contains("No space left"), "{refused}");
            read_all(at);
            assert!(open.counts().cached > 0, "what was kept before is read");
            println!("all is right on a full disk");
        }
        _ => panic!("what is {does}?"),
    }
}

/// How many objects there are, and the sum of their numbers. Meanwhile no memory is taken but for some pages.
fn list_all(address: &Address) -> (u64, u64) {
    let resident = || {
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let (before, mut most, mut sum) = (resident(), 0, 0);
    let mut watch = |_| {
        most = most.max(resident());
        std::ops::ControlFlow::Continue(())
    };
    let count = feedline_store::list(address, &mut watch, |entry| {
        let number = entry.name.rsplit('/').next().unwrap().trim_end_matches(".jpg");
        sum += number.parse::<u64>().unwrap();
    });
    // All entries would be more than 100 bytes each.
    let taken = most.saturating_sub(before);
    assert!(taken < 12 << 20, "{taken} bytes");
    (count.unwrap(), sum)
}

#[test]
#[cfg(target_os = "linux")]
fn a_listing_takes_memory_for_some_pages_only() {
    let store = Store::new("processes-listing");
    fs::write(store.folder().join("made-up"), "200000").unwrap();
    let mut store = store;
    store.bucket = "made-up".to_string();
    let ended = reader("list", &store, &store.folder().join("cache"), 1 << 30).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let sum: u64 = (0..200_000).sum();
    assert!(said.contains(&format!("200000 objects with the names' sum {sum}")), "{said}");
}

fn entries(cache: &Path, ending: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(cache).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let paths = files.flatten().map(|file| file.path());
    paths.filter(|path| path.extension().is_some_and(|it| it == ending)).collect()
}

#[test]
fn processes_that_write_evict_and_are_killed_never_serve_each_other_anything_wrong() {
    let store = filled("processes-killed");
    let cache = store.folder().join("cache");
    // A quarter of what they read, so that they remove each other's entries all the time.
    let limit = 300_000;
    let others: Vec<Child> =
        (0..2).map(|_| reader("thrice", &store, &cache, limit).spawn().unwrap()).collect();
    for _ in 0..8 {
        let mut victim = reader("ever", &store, &cache, limit).spawn().unwrap();
        assert!(told(&mut victim, "round"), "it goes on until it is killed");
        // Wherever it is now.
        victim.kill().unwrap();
        victim.wait().unwrap();
    }
    for other in others {
        let ended = other.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let size = limit.to_string();
    store.configure(&[("cache_dir", cache.to_str().unwrap()), ("cache_size", &size)]).unwrap();
    read_all(|key| store.at(key));
    let kept = entries(&cache, "part").into_iter().map(|path| path.metadata().unwrap().len());
    let (kept, largest) = (kept.sum::<u64>(), content(OBJECTS - 1).len() as u64);
    assert!(kept <= limit + 3 * largest, "{kept}: all processes keep to one limit");
}

#[test]
fn a_process_that_dies_while_it_keeps_an_object_leaves_nothing_that_is_read() {
    let store = Store::new("processes-died");
    store.put("large", &noise(LARGE));
    let cache = store.folder().join("cache");
    // Of its requests the third gets no answer, so it is in the middle when it is killed.
    store.server.state.faults.stuck.store(3, Ordering::Relaxed);
    let mut child = reader("keep", &store, &cache, 1 << 30).spawn().unwrap();
    while entries(&cache, "tmp").is_empty() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(&cache, "part").len(), 0);
    store.server.state.faults.stuck.store(0, Ordering::Relaxed);
    store.configure(&[("cache_dir", cache.to_str().unwrap())]).unwrap();
    let object = Object::open(&store.at("large")).unwrap();
    assert!(object.keep(|| false).unwrap() && object.keep(|| true).unwrap());
    let before = store.server.state.requests.load(Ordering::Relaxed);
    let (mut part, mut whole) = (Vec::new(), Vec::new());
    object.append_at(&mut part, 9_999_999, 123_456).unwrap();
    object.append_at(&mut whole, 0, LARGE).unwrap();
    let content = noise(LARGE);
    assert!(part == content[9_999_999..][..123_456] && whole == content);
    assert_eq!(store.server.state.requests.load(Ordering::Relaxed), before, "all from the disk");
}

#[test]
#[allow(clippy::print_stderr, reason = "it says why it does nothing")]
fn a_disk_that_is_really_full_ends_the_keeping_and_nothing_else() {
    let may_mount = Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        eprintln!("nothing can be mounted here, so there is no disk to fill");
        return;
    }
    let store = filled("processes-full");
    let cache = store.folder().join("disk");
    fs::create_dir(&cache).unwrap();
    let inner = reader("full", &store, &cache, 1 << 30);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=400k none \"$0\" && exec \"$@\"").arg(&cache);
    command.arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("all is right on a full disk"), "{said}");
}
