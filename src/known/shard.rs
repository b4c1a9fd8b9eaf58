//! One shard of the store: entries in the order in which a clock hand passes them.
//!
//! An entry that was used or that goes on a known conversation stays for another round of the
//! hand; any other goes when the hand comes by. So a flood of first turns passes through without
//! taking along what is in use, as with S3-FIFO, and an entry needs no links. A tenant that holds
//! less than its share of the shard loses nothing to others.
use crate::known::digest::Digest;
use crate::known::total::{KnownTotal, TOTAL_BYTES};
use hashbrown::HashTable;

/// Moments are counted in these parts of a second, modulo 2^32: up to four years ahead.
const TICKS_PER_SECOND: f64 = 16.0;

/// Longest life of an entry, two years.
const MAX_LIFE_TICKS: f64 = 1e9;

/// An entry is spared so often at most.
const MAX_ROUNDS: u16 = 3;

/// Bits of an entry for the way back.
const BACK_BITS: u32 = 14;
const MAX_BACK: u16 = (1 << BACK_BITS) - 1;

/// A moment, or the time between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick(pub(crate) u32);

impl Tick {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a moment is meant modulo 2^32"
    )]
    pub(crate) fn at(seconds: f64) -> Tick {
        Tick((seconds * TICKS_PER_SECOND).floor() as i64 as u32)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a life is between 0 and 1e9 ticks"
    )]
    pub(crate) fn life(seconds: f64) -> Tick {
        let ticks = (seconds * TICKS_PER_SECOND).ceil();
        Tick(ticks.clamp(0.0, MAX_LIFE_TICKS) as u32)
    }

    pub(crate) fn after(self, life: Tick) -> Tick {
        Tick(self.0.wrapping_add(life.0))
    }

    /// Ticks from `now` to this moment; none if it is past.
    pub(crate) fn left(self, now: Tick) -> Option<Tick> {
        let left = self.0.wrapping_sub(now.0);
        (left.cast_signed() > 0).then_some(Tick(left))
    }
}

/// The entry of a prefix, 40 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) digest: Digest,
    total: [u8; TOTAL_BYTES],
    pub(crate) tenant: u8,
    /// Rounds of the hand that it is spared (2 bits), and messages between this boundary and the
    /// known one before it (14 bits); 0 if none is known.
    rounds_back: [u8; 2],
    pub(crate) expires: Tick,
}

/// Length of an entry in an export.
pub(crate) const ENTRY_FORM_BYTES: usize = 40;
const _: () = assert!(size_of::<Entry>() == ENTRY_FORM_BYTES);

impl Entry {
    pub(crate) fn new(digest: Digest, total: KnownTotal, tenant: u8, expires: Tick) -> Entry {
        Entry {
            digest,
            total: total.pack(),
            tenant,
            rounds_back: [0; 2],
            expires,
        }
    }

    pub(crate) fn total(&self) -> KnownTotal {
        KnownTotal::unpack(&self.total)
    }

    /// Digest, total, tenant, rounds and way back, ticks left; `None` if its time is over.
    pub(crate) fn form(&self, now: Tick) -> Option<[u8; ENTRY_FORM_BYTES]> {
        let mut form = [0; ENTRY_FORM_BYTES];
        form[..16].copy_from_slice(&self.digest.0);
        form[16..33].copy_from_slice(&self.total);
        form[33] = self.tenant;
        form[34..36].copy_from_slice(&self.rounds_back);
        form[36..].copy_from_slice(&self.expires.left(now)?.0.to_le_bytes());
        Some(form)
    }

    /// The entry of this form, with no more than `life` left.
    pub(crate) fn of_form(form: &[u8; ENTRY_FORM_BYTES], now: Tick, life: Tick) -> Entry {
        let [head @ .., tenant, rounds, back, a, b, c, d] = *form;
        let digest = head.first_chunk().expect("16 of 33 bytes");
        let total = head.last_chunk().expect("17 of 33 bytes");
        let left = u32::from_le_bytes([a, b, c, d]).min(life.0);
        Entry {
            digest: Digest(*digest),
            total: *total,
            tenant,
            rounds_back: [rounds, back],
            expires: now.after(Tick(left)),
        }
    }

    /// Sets the total, unless it is derived and there is a billed one, and lives on.
    pub(crate) fn renew(&mut self, total: KnownTotal, expires: Tick) {
        if total.is_billed() || !self.total().is_billed() {
            self.total = total.pack();
        }
        self.expires = expires;
    }

    pub(crate) fn back(&self) -> usize {
        usize::from(u16::from_le_bytes(self.rounds_back) & MAX_BACK)
    }

    /// Sets the way back to the boundary before; one that is too far is as good as none.
    pub(crate) fn set_back(&mut self, messages: usize) {
        let back = u16::try_from(messages).ok().filter(|it| *it <= MAX_BACK);
        let rounds = self.rounds().max(u16::from(messages > 0));
        self.rounds_back = (rounds << BACK_BITS | back.unwrap_or(0)).to_le_bytes();
    }

    /// Notes that it was of use.
    pub(crate) fn touch(&mut self) {
        self.set_rounds((self.rounds() + 1).min(MAX_ROUNDS));
    }

    fn rounds(&self) -> u16 {
        u16::from_le_bytes(self.rounds_back) >> BACK_BITS
    }

    fn set_rounds(&mut self, rounds: u16) {
        let back = u16::from_le_bytes(self.rounds_back) & MAX_BACK;
        self.rounds_back = (rounds << BACK_BITS | back).to_le_bytes();
    }
}

/// The losses of a shard so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
}

/// At most `capacity` entries.
pub(crate) struct Shard {
    entries: Vec<Entry>,
    index: HashTable<u32>,
    capacity: usize,
    hand: usize,
    /// Entries by tenant, and how many tenants have some.
    held: [u32; 256],
    tenants: usize,
    pub(crate) losses: Losses,
}

impl Shard {
    /// A shard without entries; `capacity` is at least 1.
    pub(crate) fn new(capacity: usize) -> Shard {
        Shard {
            entries: Vec::new(),
            index: HashTable::new(),
            capacity,
            hand: 0,
            held: [0; 256],
            tenants: 0,
            losses: Losses::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All entries, those first that the hand comes to next.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (after, next) = self.entries.split_at(self.hand.min(self.entries.len()));
        next.iter().chain(after)
    }

    /// Memory for entries and index, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.index.allocation_size()
    }

    /// Forgets all and gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Shard {
            losses: self.losses,
            ..Shard::new(self.capacity)
        };
    }

    /// The entry of `digest`; one that has expired is dropped.
    pub(crate) fn get(&mut self, digest: &Digest, now: Tick) -> Option<&mut Entry> {
        let place = self.place(digest)?;
        if self.entries[place].expires.left(now).is_none() {
            self.losses.expired += 1;
            self.remove_at(place);
            return None;
        }
        Some(&mut self.entries[place])
    }

    /// Removes the entry of `digest`; true if there was one.
    pub(crate) fn remove(&mut self, digest: &Digest) -> bool {
        let place = self.place(digest);
        place.map(|place| self.remove_at(place)).is_some()
    }

    /// Adds an entry that is not there; when full, it takes the place of another.
    pub(crate) fn insert(&mut self, entry: Entry, now: Tick) {
        if self.index.capacity() == self.index.len() && self.entries.len() > self.capacity / 2 {
            self.renew_index();
        }
        let place = match self.entries.len() < self.capacity {
            true => {
                self.reserve();
                self.entries.push(entry);
                self.entries.len() - 1
            }
            false => {
                let place = self.victim(now);
                self.unindex(place);
                self.entries[place] = entry;
                self.hand = place + 1;
                place
            }
        };
        self.tenants += usize::from(self.held[usize::from(entry.tenant)] == 0);
        self.held[usize::from(entry.tenant)] += 1;
        let entries = &self.entries;
        self.index
            .insert_unique(entry.digest.word(), number(place), |it| {
                entries[*it as usize].digest.word()
            });
    }

    fn place(&self, digest: &Digest) -> Option<usize> {
        let is_it = |place: &u32| self.entries[*place as usize].digest == *digest;
        self.index
            .find(digest.word(), is_it)
            .map(|place| *place as usize)
    }

    /// Where the entry stands that goes next.
    ///
    /// There is always one: some tenant holds its share or more, and no entry is spared for ever.
    fn victim(&mut self, now: Tick) -> usize {
        let share = self.entries.len() / self.tenants.max(1);
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let entry = &mut self.entries[self.hand];
            if entry.expires.left(now).is_none() {
                self.losses.expired += 1;
                return self.hand;
            }
            if self.held[usize::from(entry.tenant)] as usize >= share {
                let Some(rounds) = entry.rounds().checked_sub(1) else {
                    self.losses.evicted += 1;
                    return self.hand;
                };
                entry.set_rounds(rounds);
            }
            self.hand += 1;
        }
    }

    /// Takes the entry at `place` out of index and tally; it still stands there.
    fn unindex(&mut self, place: usize) {
        let Entry { digest, tenant, .. } = self.entries[place];
        let is_it = |it: &u32| *it == number(place);
        if let Ok(found) = self.index.find_entry(digest.word(), is_it) {
            found.remove();
        }
        let held = &mut self.held[usize::from(tenant)];
        *held -= 1;
        self.tenants -= usize::from(*held == 0);
    }

    /// Removes the entry at `place`; the last one moves there.
    fn remove_at(&mut self, place: usize) {
        self.unindex(place);
        self.entries.swap_remove(place);
        if let Some(moved) = self.entries.get(place) {
            let old = number(self.entries.len());
            if let Some(it) = self.index.find_mut(moved.digest.word(), |it| *it == old) {
                *it = number(place);
            }
        }
    }

    /// Room for one more entry: half as many again, never more than there may be.
    fn reserve(&mut self) {
        let count = self.entries.len();
        if count == self.entries.capacity() {
            let more = (count / 2).clamp(4, 1 << 16).min(self.capacity - count);
            self.entries.reserve_exact(more);
        }
    }

    /// Rids the index of what removed entries have left in it, so that it never grows for that.
    fn renew_index(&mut self) {
        let entries = &self.entries;
        self.index.clear();
        for (place, entry) in entries.iter().enumerate() {
            self.index
                .insert_unique(entry.digest.word(), number(place), |it| {
                    entries[*it as usize].digest.word()
                });
        }
    }
}

/// A shard has far fewer than 2^32 entries.
#[allow(clippy::cast_possible_truncation)]
fn number(place: usize) -> u32 {
    place as u32
}
