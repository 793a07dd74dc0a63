// Collective ops as calls of a communicator, on one that holds all ranks: shards that fill the whole
// and padded ones, several pairs in one transfer.
#include "harness/cuda/collectives.h"

#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace spillway {
namespace {

using testing::ElementsAre;

// Calls of each rank in their order, carried out once all ranks have made theirs.
struct Meeting {
  struct Call {
    char what;
    const float* from;
    float* to;
    int64_t count, root;
  };
  std::vector<std::vector<Call>> calls;  // per rank
  int begun = 0, ended = 0;

  void settle() const {
    const auto ranks = static_cast<int64_t>(calls.size());
    const auto of = [&](int64_t rank, size_t i) { return calls[static_cast<size_t>(rank)].at(i); };
    const auto mean = [&](size_t i, int64_t element) {
      float sum = 0;
      for (int64_t rank = 0; rank < ranks; ++rank)
        sum += of(rank, i).from[element];
      return sum / static_cast<float>(ranks);
    };
    for (size_t i = 0; i < calls[0].size(); ++i)
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Call& mine = of(rank, i);
        for (int64_t j = 0; j < mine.count; ++j) {
          if (mine.what == 'b') mine.to[j] = of(mine.root, i).from[j];
          if (mine.what == 'r' && rank == mine.root) mine.to[j] = mean(i, j);
          if (mine.what == 's') mine.to[j] = mean(i, rank * mine.count + j);
          for (int64_t other = 0; mine.what == 'g' && other < ranks; ++other)
            mine.to[other * mine.count + j] = of(other, i).from[j];
        }
      }
  }
};

class MeetingRank : public Communicator {
 public:
  MeetingRank(Meeting& meeting, size_t rank) : meeting_(meeting), rank_(rank) {}
  int64_t ranks() const override { return static_cast<int64_t>(meeting_.calls.size()); }
  void begin() override { ++meeting_.begun; }
  void end() override { ++meeting_.ended; }
  void all_gather(const std::byte* from, std::byte* to, int64_t count, DType,
                  CUstream_st*) override {
    add('g', from, to, count, 0);
  }
  void reduce_scatter(const std::byte* from, std::byte* to, int64_t count, DType,
                      CUstream_st*) override {
    add('s', from, to, count, 0);
  }
  void broadcast(const std::byte* from, std::byte* to, int64_t count, DType, int64_t root,
                 CUstream_st*) override {
    add('b', from, to, count, root);
  }
  void reduce(const std::byte* from, std::byte* to, int64_t count, DType, int64_t root,
              CUstream_st*) override {
    add('r', from, to, count, root);
  }

 private:
  void add(char what, const std::byte* from, std::byte* to, int64_t count, int64_t root) {
    meeting_.calls[rank_].push_back(
        {what, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), count, root});
  }
  Meeting& meeting_;
  size_t rank_;
};

using Floats = std::vector<float>;

// Every rank's call of `kind` on its own inputs; outputs have room for one more element, which must
// stay as it was.
std::vector<std::vector<Floats>> run(OpKind kind, std::vector<std::vector<Floats>> inputs,
                                     const std::vector<int64_t>& outputs, Meeting& meeting) {
  meeting.calls.resize(inputs.size());
  Op op;
  op.kind = kind;
  op.name = "c";
  op.attributes.devices = static_cast<int64_t>(inputs.size());
  std::vector<std::vector<Floats>> made(inputs.size());
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    std::vector<Buffer> in, out;
    for (Floats& values : inputs[rank])
      in.push_back({values.data(), {static_cast<int64_t>(values.size())}, DType::f32});
    for (const int64_t size : outputs)
      made[rank].emplace_back(size + 1, -1.f);
    for (size_t i = 0; i < outputs.size(); ++i)
      out.push_back({made[rank][i].data(), {outputs[i]}, DType::f32});
    MeetingRank communicator(meeting, rank);
    run_collective({&op, in, out}, communicator, nullptr);
  }
  meeting.settle();
  return made;
}

TEST(CudaCollectives, GatherShardsInRankOrder) {
  Meeting meeting;
  const auto made = run(OpKind::all_gather, {{{1, 2}, {9}}, {{3, 4}, {8}}}, {4, 2}, meeting);
  for (const auto& of_rank : made) {
    EXPECT_THAT(of_rank[0], ElementsAre(1, 2, 3, 4, -1));
    EXPECT_THAT(of_rank[1], ElementsAre(9, 8, -1));
  }
  EXPECT_EQ(meeting.begun, 2) << "one transfer a rank";
  EXPECT_EQ(meeting.ended, 2);
}

TEST(CudaCollectives, GatherNothingOfThePadding) {
  Meeting meeting;  // 4 elements over 3 ranks: shards of 2, the last one all padding
  const auto made = run(OpKind::all_gather, {{{1, 2}}, {{3, 4}}, {{77, 77}}}, {4}, meeting);
  for (const auto& of_rank : made)
    EXPECT_THAT(of_rank[0], ElementsAre(1, 2, 3, 4, -1));
}

TEST(CudaCollectives, ScatterTheMean) {
  Meeting meeting;
  const auto made = run(OpKind::reduce_scatter, {{{1, 2, 3, 4}}, {{3, 4, 5, 8}}}, {2}, meeting);
  EXPECT_THAT(made[0][0], ElementsAre(2, 3, -1));
  EXPECT_THAT(made[1][0], ElementsAre(4, 6, -1));
}

TEST(CudaCollectives, ScatterTheMeanOfWhatThereIsOfAPaddedShard) {
  Meeting meeting;  // 3 elements over 2 ranks
  const auto made = run(OpKind::reduce_scatter, {{{1, 2, 3}}, {{3, 4, 5}}}, {2}, meeting);
  EXPECT_THAT(made[0][0], ElementsAre(2, 3, -1));
  EXPECT_THAT(made[1][0], ElementsAre(4, -1, -1));
}

TEST(CudaCollectives, ExchangeRowsOfAGroupOfOneWithItself) {
  Meeting meeting;
  EXPECT_THAT(run(OpKind::all_to_all, {{{5, 6, 7}}}, {3}, meeting)[0][0], ElementsAre(5, 6, 7, -1));
  Meeting two;
  EXPECT_THROW(run(OpKind::all_to_all, {{{5}}, {{6}}}, {1}, two), RunError);
}

TEST(CudaCollectives, HaveOneCommunicatorForEachSizeOfGroup) {
  Program program;
  Segment segment;
  for (const int64_t devices : {8, 4, 8, 8}) {
    Op op;
    op.kind = OpKind::all_gather;
    op.attributes.devices = devices;
    segment.ops.push_back(op);
  }
  segment.ops.emplace_back().kind = OpKind::add;
  program.segments = {segment};
  std::vector<int64_t> opened;
  Meeting meeting;
  const Communicators groups(program, [&](int64_t ranks) {
    opened.push_back(ranks);
    return std::make_unique<MeetingRank>(meeting, 0);
  });
  EXPECT_THAT(opened, ElementsAre(8, 4));
}

TEST(CudaCollectives, OfSeveralDevicesNeedSeveralProcesses) {
  EXPECT_THROW(open_nccl(2), RunError);
}

}  // namespace
}  // namespace spillway
