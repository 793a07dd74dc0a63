#include "tests/support/random_program.h"

#include <string>
#include <vector>

#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::mt19937& random) : random_(random), builder_("random") {}

  Program make() {
    builder_.program().devices = 2;
    input_ = builder_.persistent("input", 1);
    hidden_ = builder_.carried("hidden", 1);
    rotated_ = builder_.ring("rotated", 2);
    loop("forward", Pass::forward);
    loop("backward", Pass::backward);
    straight("after");
    use({all(hidden_), all(input_)}, all(input_));
    return std::move(builder_.program());
  }

 private:
  int64_t draw(int64_t most) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(most));
  }
  bool chance(int64_t percent) { return draw(100) < percent; }
  std::string fresh(const char* what) { return what + std::to_string(names_++); }

  void use(std::vector<Operand> in, Operand out) {
    builder_.op(OpKind::add, std::move(in), {out}, fresh("add"));
  }
  // A value this body has, or what is there all the time.
  Operand value() {
    return values_[static_cast<size_t>(draw(static_cast<int64_t>(values_.size())))];
  }
  Operand add_value(TensorId id) {
    values_.push_back(all(id));
    return all(id);
  }

  void straight(const std::string& name) {
    builder_.segment(name, 1);
    values_ = {all(input_)};
  }

  // Before the loop the first ring slot, the first host slot and the carried value are written; in
  // iteration i slots i are read and slots i + 1 written; after it the last are read.
  void loop(const std::string& name, Pass pass) {
    const int64_t trips = 1 + draw(4);
    straight(name + ".first");
    use({all(input_), all(input_)}, all(hidden_));
    use({all(input_), all(hidden_)}, slice(rotated_, 0, 0));
    slots_ = builder_.host(fresh("slots"), trips + 1);
    copy_out(slice(rotated_, 0, 0), slice(slots_, 0, 0));
    gradient_ = builder_.persistent(fresh("gradient"), trips, Role::gradient);
    builder_.segment(name, trips, pass);
    values_ = {all(input_), all(hidden_)};
    const bool rotated = chance(50);  // the host gets the value of the iteration before
    if (rotated) copy_out(slice(rotated_, 1, 0), slice(slots_, 1, 1));
    for (int64_t ops = 2 + draw(9); ops > 0; --ops)
      add_op();
    if (!rotated) copy_out(value(), slice(slots_, 1, 1));
    use({slice(rotated_, 1, 0), value()}, all(hidden_));
    use({value(), value()}, slice(rotated_, 1, 1));
    straight(name + ".last");
    use({slice(rotated_, 0, trips), all(hidden_)}, all(hidden_));
    const TensorId landed = builder_.local(fresh("landed"), Role::in_flight);
    builder_.op(OpKind::copy_h2d, {slice(slots_, 0, trips)}, {all(landed)}, fresh("h2d"));
    use({all(landed), all(hidden_)}, all(hidden_));
  }

  void copy_out(const Operand& from, const Operand& to) {
    builder_.op(OpKind::copy_d2h, {from}, {to}, fresh("d2h"));
  }

  void add_op() {
    const Operand in = value();
    switch (draw(8)) {
      case 0:
        return copy_out(in, slice(slots_, 1, 1));
      case 1:
        return reload();
      case 2:
        return gather();
      case 3:
        return scatter(in);
      case 4:  // in place
        return use({in, all(hidden_)}, all(hidden_));
      default: {
        const Operand other = value();
        use({in, other}, add_value(builder_.local(fresh("local"))));
      }
    }
  }

  void reload() {
    const TensorId landed = builder_.local(fresh("landed"), Role::in_flight);
    builder_.op(OpKind::copy_h2d, {slice(slots_, 1, 0)}, {add_value(landed)}, fresh("h2d"));
  }

  TensorId shard(int64_t slices) {
    Tensor tensor;
    tensor.name = fresh("shard");
    tensor.shape = {8};
    tensor.slices = slices;
    tensor.extent = Extent::persistent;
    return builder_.add_tensor(tensor);
  }

  void gather() {
    const TensorId full = builder_.local(fresh("full"), Role::gathered_weight);
    builder_.op(OpKind::all_gather, {all(shard(1))}, {add_value(full)}, fresh("gather"));
  }

  void scatter(const Operand& in) {
    const int64_t trips = builder_.program().segments.back().trips;
    builder_.op(OpKind::reduce_scatter, {in}, {slice(shard(trips), 1, 0)}, fresh("scatter"));
    use({in, in}, slice(gradient_, 1, 0));
  }

  std::mt19937& random_;
  TinyBuilder builder_;
  TensorId input_ = no_tensor, hidden_ = no_tensor, rotated_ = no_tensor;
  TensorId slots_ = no_tensor, gradient_ = no_tensor;
  std::vector<Operand> values_;
  int names_ = 0;
};

}  // namespace

Program random_program(std::mt19937& random) { return RandomProgram(random).make(); }

}  // namespace spillway
