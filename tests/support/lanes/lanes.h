// A machine that runs blocks of lanes, for the executors of SPIR-V and of PTX: what a device does, one instruction at a time, with
// every access checked. It knows nothing of a format: a Program decodes its own instructions and tells what a lane does next.
//
//   lanes::Memory memory;
//   const uint64_t in = memory.add(bytes_in, /*writable=*/false), out = memory.add(bytes_out, true);
//   lanes::Launch launch{.lanes = 128, .grid = {tiles, 1, 1}, .shared_bytes = 4096};
//   const std::string wrong = lanes::run(program, memory, launch);   // empty: all lanes of all blocks came to their end
//
// Of the lanes of a block that can go on, those at the least pc take the next step together, so lanes that parted meet again as soon
// as they can where code is laid out in order. A lane that waits at a barrier goes on when all lanes wait there. Found: accesses that
// are misaligned or not within one range, stores to what is read only, lanes that touch the same byte without a barrier between them
// (of different blocks: at all; of one cluster, in shared memory: without a barrier of the cluster) while one of them writes, copies that a lane does not wait for, barriers
// where some lanes of the block or cluster do not come, blocks that end before others of the cluster can be done with their memory, and programs that do not end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mlc::testing::lanes {

// A lane that touches a byte. `block`: its number among the blocks of all launches on a memory, ascending as they are run. `epoch` counts the barriers of a block,
// `turn` those of a cluster.
struct Toucher {
  uint32_t block = 0, epoch = 0, turn = 0;
  uint16_t lane = 0;
};

// Who touched a byte last.
struct Touch {
  uint32_t block = 0, epoch = 0, turn = 0;
  uint16_t lane = 0;
  bool any = false, several = false;  // several: reads by more than one lane of this epoch
  bool crossed = false;               // reads by more than one block of this turn
};
struct Shadow {
  Touch write, read;
};

// True if this access and an earlier one are in no order. Remembers it. What blocks before `since` have done was in order with this; barriers of the cluster bring
// those since then in an order if `in_cluster`.
inline bool races(Shadow& s, bool is_write, uint32_t since, const Toucher& who, bool in_cluster) {
  const auto ordered = [&](const Touch& t) {
    if (!t.any || t.block < since) return true;
    if (t.crossed && t.turn == who.turn) return false;
    if (t.block != who.block) return in_cluster && t.turn != who.turn;
    return t.epoch != who.epoch || (t.lane == who.lane && !t.several);
  };
  const bool bad = !ordered(s.write) || (is_write && !ordered(s.read));
  if (is_write) {
    s.write = {who.block, who.epoch, who.turn, who.lane, true, false, false};
  } else {
    const bool same = s.read.any && s.read.block == who.block && s.read.epoch == who.epoch;
    const bool crossed = in_cluster && s.read.any && s.read.block >= since && s.read.turn == who.turn && (s.read.crossed || s.read.block != who.block);
    s.read = {who.block, who.epoch, who.turn, who.lane, true, same && (s.read.several || s.read.lane != who.lane), crossed};
  }
  return bad;
}

// The memory of a device: ranges at addresses of their own, with nothing between them. What is added must outlive it.
class Memory {
 public:
  static constexpr uint64_t kFirst = 0x100000000, kGap = 4096;

  // The address of the range: a multiple of 256.
  uint64_t add(std::span<std::byte> bytes, bool writable) {
    const uint64_t at = next_;
    ranges_.push_back({at, bytes, writable, std::vector<Shadow>(track ? bytes.size() : 0)});
    next_ += (bytes.size() + 255) / 256 * 256 + kGap;
    return at;
  }
  // What was added at this address is gone; nothing comes to lie there again.
  void remove(uint64_t address) {
    std::erase_if(ranges_, [&](const Range& r) { return r.address == address; });
  }
  struct Range {
    uint64_t address = 0;
    std::span<std::byte> bytes;
    bool writable = false;
    std::vector<Shadow> shadow;
  };
  // The range that holds all of these bytes; null if there is none.
  Range* find(uint64_t address, uint64_t size) {
    for (Range& r : ranges_)
      if (address >= r.address && address - r.address <= r.bytes.size() && size <= r.bytes.size() - (address - r.address)) return &r;
    return nullptr;
  }
  // Between launches: all that was done before is in order with what follows. The number of the first of the next `blocks`; what
  // shadows hold of earlier ones needs not be removed, a launch would take as long as there is memory.
  uint32_t forget(uint32_t blocks) {
    if (blocks > UINT32_MAX - next_block_) {
      for (Range& r : ranges_) std::fill(r.shadow.begin(), r.shadow.end(), Shadow{});
      next_block_ = 0;
    }
    const uint32_t first = next_block_;
    next_block_ += blocks;
    return first;
  }

  bool track = true;  // races in it are looked for (32 bytes for each byte); set before `add`

 private:
  std::vector<Range> ranges_;
  uint64_t next_ = kFirst;
  uint32_t next_block_ = 0;
};

// What a launch asked of memory, as warps of 32 lanes do: those of one instruction together. Shared memory has 32 banks of four bytes;
// of wide accesses 128 bytes go at a time. A conflict is one more turn because lanes want different words of one bank.
struct Counts {
  uint64_t global_loads = 0, global_stores = 0;  // of single lanes
  uint64_t shared_loads = 0, shared_stores = 0;
  uint64_t conflicts = 0;
  uint64_t instructions = 0, barriers = 0;  // of a block: lanes at the same one count once
};

struct Launch {
  uint32_t lanes = 1;                    // of a block, at most 1024
  uint32_t cluster = 1;                  // blocks side by side along x that run at once, at most 8
  std::array<uint32_t, 3> grid{1, 1, 1};  // blocks
  uint64_t first = 0;                     // blocks before this one are left out
  uint64_t shared_bytes = 0;
  uint64_t max_steps = 1'000'000'000;     // of all lanes together
  Counts* counts = nullptr;               // added to, if there is one
};

class Block;

class Program {
 public:
  virtual ~Program() = default;
  virtual uint32_t num_registers() const = 0;  // of a lane, 64 bits each; all zero before the first step
  // Executes the instruction at `pc` for these lanes, in ascending order. Of each it must call exactly one of Block's go_to, finish,
  // hold and wait, or fail for all.
  virtual void step(Block& block, uint32_t pc, std::span<const uint32_t> lanes) = 0;
};

enum class Space : uint8_t { Global, Shared };

// A block; of a launch in clusters all blocks of one, whose lanes are numbered one block after the other.
class Block {
 public:
  // `first`: the number of the launch's first block (Memory::forget).
  Block(Memory& memory, const Launch& launch, uint32_t first)
      : memory_(memory), launch_(launch), first_(first), num_lanes_(launch.lanes * launch.cluster), pc_(num_lanes_), state_(num_lanes_), has_arrived_(num_lanes_),
        shared_(launch.shared_bytes * launch.cluster), shared_shadow_(shared_.size()), epochs_(launch.cluster) {}

  const Launch& launch() const { return launch_; }
  uint32_t block_of(uint32_t lane) const { return lane / launch_.lanes; }      // in its cluster
  uint32_t lane_in_block(uint32_t lane) const { return lane % launch_.lanes; }
  const std::array<uint32_t, 3>& index() const { return index_; }  // of the first block in its grid
  std::span<uint64_t> registers(uint32_t lane) { return std::span(registers_).subspan(size_t(lane) * num_registers_, num_registers_); }

  // What the lane does next.
  void go_to(uint32_t lane, uint32_t pc) { pc_[lane] = pc; }
  void finish(uint32_t lane) {
    state_[lane] = State::Finished;
    bool under_way = !copies_[lane].open.empty();
    for (const Group& group : copies_[lane].closed) under_way = under_way || !group.empty();
    if (under_way) fail(lane, "ends before its copies");
    if (launch_.cluster > 1) end_block(lane);
  }
  // It stays at this pc until `resume`: lanes that do something together wait for each other.
  void hold(uint32_t lane) { state_[lane] = State::Held; }
  bool is_held(uint32_t lane, uint32_t pc) const { return state_[lane] == State::Held && pc_[lane] == pc; }
  void resume(uint32_t lane, uint32_t pc) { state_[lane] = State::Running, pc_[lane] = pc; }
  void wait(uint32_t lane, uint32_t pc_behind) { state_[lane] = State::Waiting, pc_[lane] = pc_behind; }
  // A barrier of the cluster: a lane arrives, goes on, and waits.
  void arrive(uint32_t lane, uint32_t pc_behind) {
    if (std::exchange(has_arrived_[lane], uint8_t{1})) return fail(lane, "arrives at a barrier of its cluster again before it has waited");
    pc_[lane] = pc_behind;
  }
  void wait_for_cluster(uint32_t lane, uint32_t pc_behind) {
    if (!std::exchange(has_arrived_[lane], uint8_t{0})) return fail(lane, "waits at a barrier of its cluster without having arrived");
    state_[lane] = State::WaitingForCluster, pc_[lane] = pc_behind;
  }

  // `size` is 1, 2, 4 or 8; false, and the run fails, if the access is wrong.
  bool load(uint32_t lane, Space space, uint64_t address, unsigned size, uint64_t& value) {
    value = 0;
    const std::byte* at = access(lane, space, address, size, false, true);
    if (at) std::memcpy(&value, at, size);
    return at != nullptr;
  }
  bool store(uint32_t lane, Space space, uint64_t address, unsigned size, uint64_t value) {
    std::byte* at = access(lane, space, address, size, true, true);
    if (at) std::memcpy(at, &value, size);
    return at != nullptr;
  }
  // Copies to shared memory that go on beside their lane, in groups. They are made when the lane waits for their group, and no earlier: until then nothing is
  // where they go. Of `size` bytes `given` are from memory, the others zero.
  bool begin_copy(uint32_t lane, uint64_t to, uint64_t from, uint64_t size, uint64_t given) {
    const std::byte* source = given ? access(lane, Space::Global, from, size, false, true) : nullptr;
    std::byte* at = access(lane, Space::Shared, to, size, true, true);
    if (!at || (given && !source)) return false;
    Copy copy{to + block_of(lane) * launch_.shared_bytes, std::vector<std::byte>(size)};
    if (source) std::memcpy(copy.bytes.data(), source, given);
    std::fill_n(at, size, kPoison);
    copies_[lane].open.push_back(std::move(copy));
    return true;
  }
  void close_copies(uint32_t lane) { copies_[lane].closed.push_back(std::exchange(copies_[lane].open, {})); }
  // Until at most so many groups are under way. False, and the run fails, if another lane was where one of them goes.
  bool wait_copies(uint32_t lane, uint64_t groups) {
    std::deque<Group>& closed = copies_[lane].closed;
    for (; closed.size() > groups; closed.pop_front())
      for (const Copy& copy : closed.front()) {
        for (uint64_t k = 0; k < copy.bytes.size(); ++k)
          if (races(shared_shadow_[copy.to + k], true, number_, toucher(lane), true))
            return fail(lane, "a copy to shared memory at " + std::to_string(copy.to % launch_.shared_bytes) + " races with another lane"), false;
        std::memcpy(shared_.data() + copy.to, copy.bytes.data(), copy.bytes.size());
        note_store(lane);
      }
    return true;
  }
  // Shared memory as a unit reads it that goes on beside the lanes: what these stored is there for it once each of them has said so. Null, and the run fails, if the
  // access is wrong or a lane of the block has not.
  const std::byte* read_beside(uint32_t lane, uint64_t address, uint64_t size) {
    const auto begin = unfenced_.begin() + block_of(lane) * launch_.lanes, found = std::find(begin, begin + launch_.lanes, 1);
    if (found != begin + launch_.lanes) return fail(lane, "reads beside the lanes what lane " + std::to_string(found - begin) + " stored without a fence"), nullptr;
    const std::byte* at = access(lane, Space::Shared, address, size, false, true);
    if (at && launch_.counts) asked_.pop_back();
    return at;
  }
  void note_store(uint32_t lane) { unfenced_[lane] = 1; }
  void fence(uint32_t lane) { unfenced_[lane] = 0; }
  // Compares and exchanges; such accesses race with nothing.
  bool exchange(uint32_t lane, Space space, uint64_t address, unsigned size, uint64_t expected, uint64_t value, uint64_t& old) {
    old = 0;
    std::byte* at = access(lane, space, address, size, true, false);
    if (!at) return false;
    std::memcpy(&old, at, size);
    if (old == expected) std::memcpy(at, &value, size);
    return true;
  }
  // The bytes of an access that was checked; null if it is wrong. For accesses that are wider, or that end later.
  std::byte* access(uint32_t lane, Space space, uint64_t address, uint64_t size, bool is_write, bool may_race) {
    return access(lane, space, block_of(lane), address, size, is_write, may_race);
  }
  // The same of the shared memory of a block of the cluster.
  std::byte* access(uint32_t lane, Space space, uint32_t block, uint64_t address, uint64_t size, bool is_write, bool may_race) {
    const auto where = [&] { return (space == Space::Shared ? " of shared memory at " : " at ") + std::to_string(address); };
    const auto what = [&] { return std::string(is_write ? "store of " : "load of ") + std::to_string(size) + " bytes"; };
    if (size == 0 || address % size != 0) return fail(lane, what() + where() + " is misaligned"), nullptr;
    std::byte* at;
    Shadow* shadow;
    uint32_t since = first_;
    if (space == Space::Shared) {
      if (address > launch_.shared_bytes || size > launch_.shared_bytes - address || block >= launch_.cluster) return fail(lane, what() + where() + " is out of range"), nullptr;
      if (block != block_of(lane) && state_[size_t(block) * launch_.lanes] == State::Finished) return fail(lane, what() + where() + " of a block that has ended"), nullptr;
      const uint64_t place = block * launch_.shared_bytes + address;
      at = shared_.data() + place, shadow = shared_shadow_.data() + place, since = number_;
    } else {
      Memory::Range* r = memory_.find(address, size);
      if (!r) return fail(lane, what() + where() + " is out of range"), nullptr;
      if (is_write && !r->writable) return fail(lane, what() + where() + " is to what is read only"), nullptr;
      at = r->bytes.data() + (address - r->address), shadow = r->shadow.empty() ? nullptr : r->shadow.data() + (address - r->address);
    }
    if (shadow && may_race)
      for (uint64_t k = 0; k < size; ++k)
        if (races(shadow[k], is_write, since, toucher(lane), space == Space::Shared))
          return fail(lane, what() + where() + " races with another lane"), nullptr;
    if (launch_.counts) asked_.push_back({lane, space, address, size, is_write});
    return at;
  }

  void fail(uint32_t lane, const std::string& message) {
    if (!error_.empty()) return;
    error_ = "block " + std::to_string(index_[0] + block_of(lane)) + "," + std::to_string(index_[1]) + " lane " + std::to_string(lane_in_block(lane)) + " pc " +
             std::to_string(now_) + ": " + message;
  }
  bool failed() const { return !error_.empty(); }

 private:
  friend std::string run(Program& program, Memory& memory, const Launch& launch);
  enum class State : uint8_t { Running, Held, Waiting, WaitingForCluster, Finished };
  static constexpr std::byte kPoison{0xA5};
  struct Copy {
    uint64_t to = 0;
    std::vector<std::byte> bytes;
  };
  using Group = std::vector<Copy>;
  struct CopiesOfLane {
    Group open;
    std::deque<Group> closed;  // oldest first
  };

  // `number`: blocks of this launch that were run before.
  void begin(Program& program, std::array<uint32_t, 3> index, uint32_t number) {
    index_ = index, number_ = first_ + number, turn_ = 0, num_registers_ = program.num_registers();
    registers_.assign(size_t(num_lanes_) * num_registers_, 0);
    std::fill(epochs_.begin(), epochs_.end(), 0);
    std::fill(pc_.begin(), pc_.end(), 0);
    has_arrived_.assign(num_lanes_, 0);
    unfenced_.assign(num_lanes_, 0);
    std::fill(state_.begin(), state_.end(), State::Running);
    std::fill(shared_.begin(), shared_.end(), kPoison);
    copies_.assign(num_lanes_, {});
  }
  Toucher toucher(uint32_t lane) const { return {number_ + block_of(lane), epochs_[block_of(lane)], turn_, static_cast<uint16_t>(lane)}; }

  // The last lane of a block: to end is to have stored everywhere.
  void end_block(uint32_t lane) {
    const uint32_t block = block_of(lane), begin = block * launch_.lanes;
    for (uint32_t k = begin; k < begin + launch_.lanes; ++k)
      if (state_[k] != State::Finished) return;
    for (uint64_t at = block * launch_.shared_bytes; at < (block + 1) * launch_.shared_bytes; ++at) {
      const Touch& read = shared_shadow_[at].read;
      if (read.any && read.block >= number_ && read.turn == turn_ && (read.crossed || read.block != number_ + block))
        return fail(lane, "ends while another block may read what it has in shared memory");
    }
  }

  // False when no lane can go on.
  bool advance(Program& program, uint64_t& steps) {
    now_ = UINT32_MAX;
    for (uint32_t k = 0; k < num_lanes_; ++k)
      if (state_[k] == State::Running) now_ = std::min(now_, pc_[k]);
    if (now_ == UINT32_MAX) return release();
    together_.clear();
    for (uint32_t k = 0; k < num_lanes_; ++k)
      if (state_[k] == State::Running && pc_[k] == now_) together_.push_back(k);
    steps += together_.size();
    if (steps > launch_.max_steps) fail(together_[0], "the program does not end");
    else program.step(*this, now_, together_);
    if (launch_.counts) ++launch_.counts->instructions, count();
    return !failed();
  }

  // What the lanes asked for in one instruction.
  void count() {
    Counts& c = *launch_.counts;
    for (size_t k = 0; k < asked_.size();) {
      const Asked& first = asked_[k];
      const uint64_t lanes_at_once = 128 / std::clamp<uint64_t>(first.size, 4, 128);
      std::array<std::vector<uint64_t>, 32> words;
      size_t turns = 0;
      for (; k < asked_.size() && asked_[k].lane / lanes_at_once == first.lane / lanes_at_once; ++k) {
        const Asked& a = asked_[k];
        if (a.space == Space::Global) ++(a.is_write ? c.global_stores : c.global_loads);
        else ++(a.is_write ? c.shared_stores : c.shared_loads);
        for (uint64_t word = a.address / 4; a.space == Space::Shared && word <= (a.address + a.size - 1) / 4; ++word) {
          auto& bank = words[word % 32];
          if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
          turns = std::max(turns, bank.size());
        }
      }
      c.conflicts += turns > 1 ? turns - 1 : 0;
    }
    asked_.clear();
  }

  // All lanes wait or are at their end.
  bool release() {
    for (uint32_t k = 0; k < num_lanes_; ++k)
      if (state_[k] == State::Held) return now_ = pc_[k], fail(k, "waits for lanes that never come, to do something together"), false;
    bool any = false;
    for (uint32_t block = 0; block < launch_.cluster && !failed(); ++block)
      if (release(State::Waiting, block * launch_.lanes, launch_.lanes)) any = true, ++epochs_[block];
    if (any && launch_.counts) ++launch_.counts->barriers;
    if (any || failed() || !release(State::WaitingForCluster, 0, num_lanes_)) return any && !failed();
    ++turn_;
    for (uint32_t& epoch : epochs_) ++epoch;
    return true;
  }
  // Lets these lanes go on that wait so. False, if none does, or if some do not; the run fails then.
  bool release(State how, uint32_t begin, uint32_t count) {
    uint32_t waiting = 0, first = 0;
    for (uint32_t k = begin + count; k-- > begin;)
      if (state_[k] == how) ++waiting, first = k;
    if (waiting == 0) return false;
    now_ = pc_[first];
    if (waiting != count) return fail(first, "waits at a barrier that other lanes never reach"), false;
    for (uint32_t k = begin; k < begin + count; ++k)
      if (pc_[k] != pc_[first]) return fail(k, "waits at another barrier than lane " + std::to_string(lane_in_block(first))), false;
    std::fill_n(state_.begin() + begin, count, State::Running);
    return true;
  }

  Memory& memory_;
  Launch launch_;
  uint32_t first_, num_lanes_;
  std::vector<uint32_t> pc_, together_;
  std::vector<State> state_;
  std::vector<uint8_t> has_arrived_, unfenced_;  // unfenced: has stored to shared memory since its last fence
  std::vector<std::byte> shared_;
  std::vector<Shadow> shared_shadow_;
  std::vector<uint32_t> epochs_;
  std::vector<uint64_t> registers_;
  std::vector<CopiesOfLane> copies_;
  struct Asked {
    uint32_t lane;
    Space space;
    uint64_t address, size;
    bool is_write;
  };
  std::vector<Asked> asked_;
  std::array<uint32_t, 3> index_{};
  uint32_t number_ = 0, turn_ = 0, num_registers_ = 0, now_ = 0;
  std::string error_;
};

// Blocks run one after the other, the last one first: nothing may depend on their order. The first thing that went wrong; empty if
// nothing did.
inline std::string run(Program& program, Memory& memory, const Launch& launch) {
  if (launch.lanes == 0 || launch.lanes > 1024) return "a block of " + std::to_string(launch.lanes) + " lanes";
  const uint64_t blocks = uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  if (blocks > UINT32_MAX) return "too many blocks";
  const uint64_t size = launch.cluster;
  if (size == 0 || size > 8 || launch.grid[0] % size != 0) return std::to_string(launch.grid[0]) + " blocks in clusters of " + std::to_string(size);
  Block block(memory, launch, memory.forget(uint32_t(blocks)));
  uint64_t steps = 0;
  for (uint64_t n = blocks; n > launch.first && !block.failed();) {
    n -= size;
    const uint64_t x = n % launch.grid[0], y = n / launch.grid[0] % launch.grid[1], z = n / launch.grid[0] / launch.grid[1];
    block.begin(program, {uint32_t(x), uint32_t(y), uint32_t(z)}, uint32_t(blocks - size - n));
    while (block.advance(program, steps)) {}
  }
  return block.error_;
}

}  // namespace mlc::testing::lanes
