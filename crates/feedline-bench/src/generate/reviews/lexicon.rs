//! The words of reviews, as often as Zipf's law has them.
//!
//! The most frequent are English. What comes after them is made up of syllables, the same for every seed, so that train and test
//! share a vocabulary and two data sets differ in what they say only.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::super::SplitMix;

/// How many words there are: about as many as in IMDB's reviews.
const WORDS: usize = 100_000;

/// Mandelbrot's addition to a rank: the first few words are not as far apart as Zipf's law says.
const OFFSET: f64 = 2.7;

/// English, by rank. Some have letters outside of ASCII, some an apostrophe, as in real reviews.
const COMMON: &str = "the and a of to is it in i this that was as with for movie but film on you are not have one be he \
    his all at they by an who so from like her or just about if out has what there some when more very she up even my no \
    would only really story which had their we see can were me than much get been because people other don't into do how \
    will it's him first made most its also make way them could too after then characters movies think any character films \
    two watch plot being many never life acting over know off man where did ever love little does your year show these \
    still scene end while why scenes say such go through something i'm should those back here years real watching thing \
    doesn't now though actors director didn't another work before nothing actually makes find going few look same part \
    every can't want cast seems down old quite things take us between around long own take young got however script role \
    music again isn't world horror family enough series comedy original action must whole girl guy night day screen camera \
    moment idea ending last set point although might book thought three friends women hard men war since job done black \
    house hand john american special school town fun money sense face short kids wife course left kind let car naïve café \
    fiancé cliché";

/// Letters that syllables begin with, and their vowels.
const ONSETS: &[u8; 14] = b"bdfgklmnprstvz";
const VOWELS: &[u8; 5] = b"aeiou";

/// What a made-up word may end with. No syllable begins so, or ends so: words stay different.
const ENDINGS: [&str; 8] = ["", "n", "r", "s", "l", "", "ng", "ck"];

/// Syllables in all.
const SYLLABLES: usize = ONSETS.len() * VOWELS.len();

/// Words by rank, and how often they come.
#[derive(Debug)]
pub(super) struct Lexicon {
    words: Vec<String>,
    /// Sums of the frequencies up to each word.
    sums: Vec<f64>,
}

impl Lexicon {
    /// The words of all reviews; made once.
    pub(super) fn shared() -> &'static Self {
        static LEXICON: OnceLock<Lexicon> = OnceLock::new();
        LEXICON.get_or_init(Self::new)
    }

    fn new() -> Self {
        let mut words: Vec<String> = Vec::with_capacity(WORDS);
        let mut known = HashSet::with_capacity(WORDS);
        let english = COMMON.split_whitespace().map(str::to_owned);
        let listed = super::prose::opinions().map(str::to_owned);
        known.extend(listed);
        for word in english.chain((0..).map(made_up)) {
            if words.len() == WORDS {
                break;
            }
            if known.insert(word.clone()) {
                words.push(word);
            }
        }
        let mut sum = 0.0;
        let sums = (1..=words.len()).map(|rank| {
            sum += 1.0 / (rank as f64 + OFFSET);
            sum
        });
        Self { sums: sums.collect(), words }
    }

    /// A word, by chance.
    pub(super) fn draw(&self, random: &mut SplitMix) -> &str {
        let total = self.sums.last().copied().unwrap_or_default();
        let place = share(random) * total;
        let rank = self.sums.partition_point(|sum| *sum <= place);
        self.words.get(rank).map_or("the", String::as_str)
    }
}

/// From 0 to 1, without 1, in steps that tell all words apart.
pub(super) fn share(random: &mut SplitMix) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}

/// The word of a number: two syllables, then three. Neighbours do not look alike.
fn made_up(number: usize) -> String {
    let pairs = SYLLABLES * SYLLABLES;
    let (mut rest, count) = if number < pairs {
        (number * 2399 % pairs, 2)
    } else {
        ((number - pairs) * 161_803 % (pairs * SYLLABLES), 3)
    };
    let mut word = String::with_capacity(9);
    for _ in 0..count {
        let syllable = rest % SYLLABLES;
        rest /= SYLLABLES;
        word.push(char::from(ONSETS[syllable % ONSETS.len()]));
        word.push(char::from(VOWELS[syllable / ONSETS.len()]));
    }
    word + ENDINGS[SplitMix::new(0, number as u64).below(ENDINGS.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_many_and_different() {
        let lexicon = Lexicon::shared();
        assert_eq!(lexicon.words.len(), WORDS);
        assert_eq!(lexicon.words.iter().collect::<HashSet<_>>().len(), WORDS);
        assert!(lexicon.words.iter().all(|word| (1..=11).contains(&word.len())));
    }

    #[test]
    fn words_come_as_often_as_zipf_says() {
        let lexicon = Lexicon::shared();
        let mut random = SplitMix::new(1, 1);
        let draws = 200_000;
        let first: Vec<&str> = (0..draws).map(|_| lexicon.draw(&mut random)).collect();
        let share =
            |word: &str| first.iter().filter(|it| **it == word).count() as f64 / f64::from(draws);
        let total = lexicon.sums[WORDS - 1];
        for rank in [1, 2, 10, 100] {
            let expected = 1.0 / (rank as f64 + OFFSET) / total;
            let found = share(&lexicon.words[rank - 1]);
            assert!((found / expected - 1.0).abs() < 0.2, "rank {rank}: {found} of {expected}");
        }
    }
}
