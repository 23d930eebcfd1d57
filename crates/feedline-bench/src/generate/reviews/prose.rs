//! A review: sentences of common words, with opinions among them.
//!
//! Most opinions are the reviewer's; some are not ("the story is weak, but …"), and some are turned round by "not". How sure a
//! reviewer is goes with the stars. So the label can be learned from words, but no rule of a few words gets all of it: a
//! bag of words is right about as often as on IMDB.

use super::super::SplitMix;
use super::lexicon::{Lexicon, share};

const PRAISE: &str = "great good best excellent wonderful perfect amazing brilliant beautiful superb fantastic enjoyable \
    favorite loved funny touching moving powerful hilarious gem masterpiece outstanding delightful charming memorable \
    refreshing clever captivating stunning flawless heartwarming underrated gripping terrific incredible witty solid \
    impressive genuine unforgettable";

const BLAME: &str = "bad worst awful terrible boring poor waste stupid horrible dull poorly lame ridiculous mess annoying \
    pointless disappointing pathetic badly weak laughable predictable unfunny lousy wooden tedious forgettable garbage \
    mediocre dreadful cheap painful bland clumsy hollow disaster amateurish insulting redeeming uninspired";

/// The share of words that are opinions.
const OPINIONS: f64 = 0.07;

/// The share of opinions that are turned round.
const TURNED: f64 = 0.1;

/// Half of all reviews have fewer words than this, and half of the mean's distance above it is in the long tail.
const MEDIAN_WORDS: f64 = 174.0;

/// Standard deviation of the logarithm of the number of words.
const SPREAD: f64 = 0.75;

/// IMDB's shortest and longest reviews.
const FEWEST_WORDS: f64 = 10.0;
const MOST_WORDS: f64 = 2500.0;

/// A review with what its reviewer thinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Review {
    pub(super) text: String,
    /// 1 to 4 for a negative one, 7 to 10 for a positive one.
    pub(super) stars: u8,
    pub(super) words: usize,
}

/// All words of opinion.
pub(super) fn opinions() -> impl Iterator<Item = &'static str> {
    PRAISE.split_whitespace().chain(BLAME.split_whitespace())
}

impl Review {
    /// The review of an index.
    pub(super) fn new(seed: u64, index: u64, is_positive: bool) -> Self {
        // A stream that no picture of the same seed has.
        let mut random = SplitMix::new(seed ^ 0x7265_7669_6577_7321, index);
        let certainty = random.below(4) as u8;
        let stars = if is_positive { 7 + certainty } else { 4 - certainty };
        let mut writer = ReviewWriter {
            agreeing: 0.62 + 0.09 * f64::from(certainty),
            is_positive,
            text: String::new(),
            words: 0,
            random,
        };
        let words = writer.length();
        while writer.words < words {
            writer.sentence(words);
        }
        Self { text: writer.text, stars, words: writer.words }
    }
}

struct ReviewWriter {
    random: SplitMix,
    is_positive: bool,
    /// The share of opinions that are the reviewer's.
    agreeing: f64,
    text: String,
    words: usize,
}

impl ReviewWriter {
    /// How many words, log-normally distributed. By sums and products alone, which are the same on every machine.
    fn length(&mut self) -> usize {
        let normal = (0..12).map(|_| share(&mut self.random)).sum::<f64>() - 6.0;
        let mut factor = 1.0 + normal * SPREAD / 1024.0;
        for _ in 0..10 {
            factor *= factor;
        }
        (MEDIAN_WORDS * factor).clamp(FEWEST_WORDS, MOST_WORDS) as usize
    }

    fn sentence(&mut self, most: usize) {
        if !self.text.is_empty() {
            let gap = if share(&mut self.random) < 0.12 { "<br /><br />" } else { " " };
            self.text.push_str(gap);
        }
        let length = 5 + self.random.below(10) + self.random.below(14);
        let last = (self.words + length as usize).min(most);
        let begin = self.text.len();
        while self.words < last {
            if self.text.len() > begin {
                let pause = if share(&mut self.random) < 0.07 { ", " } else { " " };
                self.text.push_str(pause);
            }
            if share(&mut self.random) < OPINIONS {
                self.opinion();
            } else if share(&mut self.random) < 0.006 {
                let word = Lexicon::shared().draw(&mut self.random);
                self.text.extend(["\"", word, "\""]);
                self.words += 1;
            } else {
                self.text.push_str(Lexicon::shared().draw(&mut self.random));
                self.words += 1;
            }
        }
        capitalise(&mut self.text, begin);
        let end = match self.random.below(20) {
            0 => "?",
            1 | 2 => "!",
            _ => ".",
        };
        self.text.push_str(end);
    }

    fn opinion(&mut self) {
        let agrees = share(&mut self.random) < self.agreeing;
        let mut praises = self.is_positive == agrees;
        if share(&mut self.random) < TURNED {
            self.text.push_str("not ");
            self.words += 1;
            praises = !praises;
        }
        let words = if praises { PRAISE } else { BLAME };
        // Words at the front of the lists are said more often.
        let place = share(&mut self.random) * share(&mut self.random);
        let count = words.split_whitespace().count();
        let word = words.split_whitespace().nth((place * count as f64) as usize);
        self.text.push_str(word.unwrap_or("good"));
        self.words += 1;
    }
}

/// Makes the letter at `place` a capital, if it is one of ASCII's.
fn capitalise(text: &mut str, place: usize) {
    if let Some(letter) = text.get_mut(place..place + 1) {
        letter.make_ascii_uppercase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reviews(count: u64) -> Vec<Review> {
        (0..count).map(|index| Review::new(7, index, index % 2 == 0)).collect()
    }

    #[test]
    fn lengths_are_those_of_imdb() {
        let mut lengths: Vec<f64> = reviews(4000).iter().map(|it| it.words as f64).collect();
        lengths.sort_by(f64::total_cmp);
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        assert!((220.0..240.0).contains(&mean), "{mean} words in the mean");
        assert!((165.0..185.0).contains(&lengths[2000]), "{} in the middle", lengths[2000]);
        assert!(lengths[3960] > 700.0, "{}: the tail is long", lengths[3960]);
        assert!(lengths[0] >= FEWEST_WORDS);
    }

    #[test]
    fn opinions_tell_most_labels_but_not_all() {
        let says = |text: &str, list: &str| {
            let list: Vec<&str> = list.split_whitespace().collect();
            let words = text.split(|c: char| !c.is_alphanumeric());
            words.filter(|word| list.contains(&word.to_lowercase().as_str())).count()
        };
        let right = reviews(1000)
            .iter()
            .filter(|it| {
                let (praise, blame) = (says(&it.text, PRAISE), says(&it.text, BLAME));
                if it.stars > 5 { praise > blame } else { blame > praise }
            })
            .count();
        assert!((700..950).contains(&right), "{right} of 1000 by counting words of opinion");
    }

    #[test]
    fn stars_are_on_the_side_of_the_label() {
        for index in 0..50 {
            assert!((7..=10).contains(&Review::new(1, index, true).stars));
            assert!((1..=4).contains(&Review::new(1, index, false).stars));
        }
    }

    #[test]
    fn text_looks_like_a_review() {
        let all: String = reviews(200).into_iter().map(|it| it.text).collect();
        for part in ["<br /><br />", ", ", "\"", "'", "!", "?", "not ", "movie"] {
            assert!(all.contains(part), "{part}");
        }
        assert!(all.starts_with(|c: char| c.is_ascii_uppercase()));
        assert!(!all.contains(['\n', '\r']), "a review is one line");
    }
}
