#include "transformer.h"

#include <smeltr/smeltr.h>

#include <algorithm>

namespace smeltr::demo {
namespace {

constexpr VkBufferUsageFlags kStorage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
constexpr VkBufferUsageFlags kCopyFrom = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
constexpr VkBufferUsageFlags kCopyTo = VK_BUFFER_USAGE_TRANSFER_DST_BIT;

// Storage ranges start at multiples of this: the largest minimum that Vulkan permits a device.
constexpr VkDeviceSize kRangeAlignmentBytes = 256;

constexpr uint32_t kOperationsPerLayer = 17;
constexpr uint32_t kOtherOperations = 5;
constexpr uint32_t kSetCount = kLayers * kOperationsPerLayer + kOtherOperations;

VkDeviceSize Align(VkDeviceSize bytes) {
  return (bytes + kRangeAlignmentBytes - 1) / kRangeAlignmentBytes * kRangeAlignmentBytes;
}

uint32_t GroupsFor(uint32_t invocations) { return (invocations + kWorkgroupSize - 1) / kWorkgroupSize; }

Range Whole(const Buffer& buffer) { return {buffer.Handle(), 0, buffer.SizeBytes()}; }

// Hands out consecutive aligned ranges of a buffer that is created once the total is known.
class Arena {
 public:
  Range Take(VkDeviceSize floats) {
    const Range range{VK_NULL_HANDLE, size_bytes_, floats * sizeof(float)};
    size_bytes_ = Align(size_bytes_ + range.size_bytes);
    return range;
  }
  VkDeviceSize SizeBytes() const { return size_bytes_; }

 private:
  VkDeviceSize size_bytes_ = 0;
};

}  // namespace

Transformer::Transformer(const Device& device, VkQueue queue, const Model& model, const Request& request,
                         bool keep_logits)
    : device_(device),
      model_(model),
      request_(request),
      keep_logits_(keep_logits),
      context_(request.Context()),
      kernels_(device),
      stream_(device, queue, kernels_) {
  CreateBuffers();
  CreateDescriptorPool();
  CreateOperations();
  Upload();
}

void Transformer::CreateBuffers() {
  weights_ =
      Buffer(device_, "weights", model_.values().size_bytes(), kStorage | kCopyTo, BufferHome::kDevice);
  cache_ = Buffer(device_, "kv_cache", Cache(kLayers, 0).offset_bytes, kStorage, BufferHome::kDevice);
  tokens_ = Buffer(device_, "tokens", context_ * sizeof(uint32_t), kStorage | kCopyFrom | kCopyTo,
                   BufferHome::kDevice);
  token_results_ =
      Buffer(device_, "token_results", request_.steps * sizeof(uint32_t), kCopyTo, BufferHome::kHost);
  if (keep_logits_) {
    logit_results_ =
        Buffer(device_, "logit_results", VkDeviceSize{request_.steps} * kVocabulary * sizeof(float), kCopyTo,
               BufferHome::kHost);
  }

  Arena arena;
  Activations& a = activations_;
  for (Range* range : {&a.x, &a.normed, &a.query, &a.key, &a.rotated_query, &a.mixed, &a.projected}) {
    *range = arena.Take(kDim);
  }
  for (Range* range : {&a.scores, &a.weights}) *range = arena.Take(VkDeviceSize{kHeads} * context_);
  for (Range* range : {&a.gate, &a.up, &a.hidden}) *range = arena.Take(kHidden);
  for (Range* range : {&a.logits, &a.probabilities}) *range = arena.Take(kVocabulary);
  activations_buffer_ =
      Buffer(device_, "activations", arena.SizeBytes(), kStorage | kCopyFrom, BufferHome::kDevice);
  for (Range* range : {&a.x, &a.normed, &a.query, &a.key, &a.rotated_query, &a.scores, &a.weights, &a.mixed,
                       &a.projected, &a.gate, &a.up, &a.hidden, &a.logits, &a.probabilities}) {
    range->buffer = activations_buffer_.Handle();
  }
}

// The keys (half 0) or values (half 1) of a layer: [position][dim].
Range Transformer::Cache(uint32_t layer, uint32_t half) const {
  const VkDeviceSize size_bytes = VkDeviceSize{context_} * kDim * sizeof(float);
  return {cache_.Handle(), (VkDeviceSize{layer} * 2 + half) * size_bytes, size_bytes};
}

Range Transformer::Weights(const Tensor& tensor) const {
  return {weights_.Handle(), tensor.offset * sizeof(float), tensor.count * sizeof(float)};
}

void Transformer::CreateDescriptorPool() {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kSetCount * kBindingCount};
  VkDescriptorPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  info.maxSets = kSetCount;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  Check(device_.Functions().CreateDescriptorPool(device_.Handle(), &info, nullptr, &pool),
        "vkCreateDescriptorPool");
  descriptor_pool_ = OwnedDescriptorPool(device_, pool);
}

void Transformer::CreateOperations() {
  const Activations& a = activations_;
  const bool greedy = request_.sampling == Sampling::kGreedy;
  embed_ = Bind(Kernel::kEmbed, GroupsFor(kDim), Whole(tokens_), Weights(model_.embedding), a.x);
  for (uint32_t i = 0; i < kLayers; ++i) layers_[i] = CreateLayer(model_.layers[i], i);
  final_norm_ = Bind(Kernel::kRmsNorm, 1, a.x, Weights(model_.final_norm), a.normed);
  logits_ = Bind(Kernel::kLogitsMatmul, GroupsFor(kVocabulary), a.normed, Weights(model_.logits), a.logits);
  softmax_ = Bind(Kernel::kSoftmax, 1, a.logits, {}, a.probabilities);
  sample_ =
      Bind(greedy ? Kernel::kSampleGreedy : Kernel::kSampleSeeded, 1, a.probabilities, {}, Whole(tokens_));
}

Transformer::LayerOperations Transformer::CreateLayer(const LayerTensors& t, uint32_t index) {
  const Activations& a = activations_;
  const Range keys = Cache(index, 0);
  const Range values = Cache(index, 1);
  const Range rotation = Weights(model_.rotation);
  constexpr uint32_t kWide = (kHidden + kWorkgroupSize - 1) / kWorkgroupSize;
  constexpr uint32_t kNarrow = (kDim + kWorkgroupSize - 1) / kWorkgroupSize;
  const uint32_t pairs = GroupsFor(kDim / 2);

  LayerOperations layer;
  layer.norm = Bind(Kernel::kRmsNorm, 1, a.x, Weights(t.attention_norm), a.normed);
  layer.query = Bind(Kernel::kQkvMatmul, kNarrow, a.normed, Weights(t.query), a.query);
  layer.key = Bind(Kernel::kQkvMatmul, kNarrow, a.normed, Weights(t.key), a.key);
  layer.value = Bind(Kernel::kQkvMatmul, kNarrow, a.normed, Weights(t.value), values);
  layer.rotate_query = Bind(Kernel::kRope, pairs, a.query, rotation, a.rotated_query);
  layer.rotate_key = Bind(Kernel::kRope, pairs, a.key, rotation, keys);
  layer.scores = Bind(Kernel::kAttentionScores, 1, a.rotated_query, keys, a.scores);
  layer.softmax = Bind(Kernel::kSoftmax, kHeads, a.scores, {}, a.weights);
  layer.values = Bind(Kernel::kAttentionValues, kNarrow, a.weights, values, a.mixed);
  layer.out = Bind(Kernel::kAttentionOutMatmul, kNarrow, a.mixed, Weights(t.output), a.projected);
  layer.add = Bind(Kernel::kResidualAdd, kNarrow, a.projected, {}, a.x);
  layer.mlp_norm = Bind(Kernel::kRmsNorm, 1, a.x, Weights(t.mlp_norm), a.normed);
  layer.gate = Bind(Kernel::kGateUpMatmul, kWide, a.normed, Weights(t.gate), a.gate);
  layer.up = Bind(Kernel::kGateUpMatmul, kWide, a.normed, Weights(t.up), a.up);
  layer.silu_mul = Bind(Kernel::kSiluMul, kWide, a.gate, a.up, a.hidden);
  layer.down = Bind(Kernel::kDownMatmul, kNarrow, a.hidden, Weights(t.down), a.projected);
  layer.mlp_add = Bind(Kernel::kResidualAdd, kNarrow, a.projected, {}, a.x);
  return layer;
}

// A range without a buffer leaves its binding unwritten: the kernel does not use it.
Transformer::Operation Transformer::Bind(Kernel kernel, uint32_t groups, const Range& input,
                                         const Range& second, const Range& output) {
  const DeviceFunctions& vk = device_.Functions();
  const VkDescriptorSetLayout layout = kernels_.SetLayout();
  VkDescriptorSetAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  allocation.descriptorPool = descriptor_pool_.Get();
  allocation.descriptorSetCount = 1;
  allocation.pSetLayouts = &layout;
  Operation operation{kernel, VK_NULL_HANDLE, groups};
  Check(vk.AllocateDescriptorSets(device_.Handle(), &allocation, &operation.set), "vkAllocateDescriptorSets");

  const std::array<const Range*, kBindingCount> ranges = {&input, &second, &output};
  std::array<VkDescriptorBufferInfo, kBindingCount> buffers{};
  std::array<VkWriteDescriptorSet, kBindingCount> writes{};
  uint32_t write_count = 0;
  for (uint32_t binding = 0; binding < kBindingCount; ++binding) {
    const Range& range = *ranges[binding];
    if (range.buffer == VK_NULL_HANDLE) continue;
    buffers[binding] = {range.buffer, range.offset_bytes, range.size_bytes};
    VkWriteDescriptorSet& write = writes[write_count++];
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = operation.set;
    write.dstBinding = binding;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &buffers[binding];
  }
  vk.UpdateDescriptorSets(device_.Handle(), write_count, writes.data(), 0, nullptr);
  return operation;
}

void Transformer::Upload() {
  const smeltr::Scope scope("upload");
  const std::span<const float> values = model_.values();
  const std::vector<uint32_t> prompt = request_.Prompt();
  const Buffer staging(device_, "staging", values.size_bytes() + prompt.size() * sizeof(uint32_t), kCopyFrom,
                       BufferHome::kHost);
  std::copy(values.begin(), values.end(), staging.Mapped<float>().begin());
  std::copy(prompt.begin(), prompt.end(),
            staging.Mapped<uint32_t>().begin() + static_cast<std::ptrdiff_t>(values.size()));

  stream_.Begin();
  stream_.Copy({staging.Handle(), 0, values.size_bytes()}, weights_.Handle(), 0);
  stream_.Copy({staging.Handle(), values.size_bytes(), prompt.size() * sizeof(uint32_t)}, tokens_.Handle(),
               0);
  stream_.Submit();
  stream_.Wait();  // The staging buffer goes away.
}

void Transformer::Prefill() {
  for (uint32_t position = 0; position + 1 < request_.prompt_length; ++position) {
    const smeltr_field field = smeltr_int("position", position);
    const smeltr::Scope scope("prefill_step", &field, 1);
    stream_.Begin();
    RecordLayers(position);
    stream_.Submit();
  }
}

void Transformer::Decode(uint32_t step) {
  const smeltr_field field = smeltr_int("step", step);
  const smeltr::Scope scope("decode_step", &field, 1);
  const uint32_t position = request_.prompt_length - 1 + step;
  stream_.Begin();
  RecordLayers(position);
  RecordHead(step, position);
  stream_.Submit();
}

void Transformer::RecordLayers(uint32_t position) {
  {
    const smeltr::Scope scope("embed");
    Record(embed_, {.position = position});
    stream_.Barrier();
  }
  for (uint32_t i = 0; i < kLayers; ++i) {
    const smeltr_field field = smeltr_int("index", i);
    const smeltr::Scope scope("layer", &field, 1);
    RecordAttention(layers_[i], position);
    RecordMlp(layers_[i]);
  }
}

void Transformer::RecordAttention(const LayerOperations& layer, uint32_t position) {
  const smeltr::Scope attention("attention");
  const uint32_t row = position * kDim;  // Of this token in the cache.
  const PushConstants cached{.position = position, .count = position + 1, .stride = context_};
  {
    const smeltr::Scope scope("norm");
    Record(layer.norm);
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("qkv");
    Record(layer.query);
    Record(layer.key);
    Record(layer.value, {.offset = row});
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("rope");
    Record(layer.rotate_query, {.position = position});
    Record(layer.rotate_key, {.position = position, .offset = row});
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("scores");
    stream_.Dispatch(layer.scores.kernel, layer.scores.set, cached, GroupsFor(cached.count), kHeads);
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("softmax");
    Record(layer.softmax, cached);
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("values");
    Record(layer.values, cached);
    stream_.Barrier();
  }
  const smeltr::Scope scope("out");
  Record(layer.out);
  stream_.Barrier();
  Record(layer.add);
  stream_.Barrier();
}

void Transformer::RecordMlp(const LayerOperations& layer) {
  const smeltr::Scope mlp("mlp");
  {
    const smeltr::Scope scope("norm");
    Record(layer.mlp_norm);
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("gate_up");
    Record(layer.gate);
    Record(layer.up);
    stream_.Barrier();
  }
  {
    const smeltr::Scope scope("silu_mul");
    Record(layer.silu_mul);
    stream_.Barrier();
  }
  const smeltr::Scope scope("down");
  Record(layer.down);
  stream_.Barrier();
  Record(layer.mlp_add);
  stream_.Barrier();
}

void Transformer::RecordHead(uint32_t step, uint32_t position) {
  const PushConstants row{.count = kVocabulary, .stride = kVocabulary};
  {
    const smeltr::Scope scope("lm_head");
    Record(final_norm_);
    stream_.Barrier();
    Record(logits_);
    stream_.Barrier();
  }
  const smeltr::Scope scope("sample");
  Record(softmax_, row);
  stream_.Barrier();
  Record(sample_, {.count = kVocabulary, .offset = position + 1, .value = request_.Threshold(step)});
  stream_.Barrier();
  const Range token{tokens_.Handle(), (VkDeviceSize{position} + 1) * sizeof(uint32_t), sizeof(uint32_t)};
  stream_.Copy(token, token_results_.Handle(), VkDeviceSize{step} * sizeof(uint32_t));
  if (keep_logits_) {
    const Range& logits = activations_.logits;
    stream_.Copy(logits, logit_results_.Handle(), step * logits.size_bytes);
  }
}

void Transformer::Record(const Operation& operation, const PushConstants& push) {
  stream_.Dispatch(operation.kernel, operation.set, push, operation.groups);
}

std::span<const uint32_t> Transformer::Tokens() const { return token_results_.Mapped<uint32_t>(); }

std::span<const float> Transformer::Logits(uint32_t step) const {
  return logit_results_.Mapped<float>().subspan(size_t{step} * kVocabulary, kVocabulary);
}

}  // namespace smeltr::demo
