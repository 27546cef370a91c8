// The network on a GPU: one command buffer a token, every operation a dispatch, with the scopes of
// smeltr.h around what belongs together. One thread and one queue; several transformers may share a device.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "command_stream.h"
#include "kernels.h"
#include "model.h"
#include "vulkan_context.h"

namespace smeltr::demo {

class Transformer {
 public:
  // Uploads the weights and the prompt. `keep_logits`: bring those of every step back to the host.
  Transformer(const Device& device, VkQueue queue, const Model& model, const Request& request,
              bool keep_logits);

  // Runs the prompt except its last token.
  void Prefill();
  // Submits the generation of token `step` and returns while the GPU works on it. Steps go in order from 0.
  void Decode(uint32_t step);
  // Until all steps submitted are done; then the results may be read.
  void Wait() { stream_.Wait(); }

  std::span<const uint32_t> Tokens() const;            // The generated ones.
  std::span<const float> Logits(uint32_t step) const;  // With keep_logits only.
  const Counts& Submitted() const { return stream_.Submitted(); }

 private:
  // A kernel with its buffers: ready to record.
  struct Operation {
    Kernel kernel = Kernel::kEmbed;
    VkDescriptorSet set = VK_NULL_HANDLE;
    uint32_t groups = 1;
  };
  struct LayerOperations {
    Operation norm, query, key, value, rotate_query, rotate_key, scores, softmax, values, out, add;
    Operation mlp_norm, gate, up, silu_mul, down, mlp_add;
  };
  // Where the values of a token pass through.
  struct Activations {
    Range x, normed, query, key, rotated_query, scores, weights, mixed, projected;
    Range gate, up, hidden, logits, probabilities;
  };

  void CreateBuffers();
  void CreateDescriptorPool();
  void CreateOperations();
  LayerOperations CreateLayer(const LayerTensors& layer, uint32_t index);
  Operation Bind(Kernel kernel, uint32_t groups, const Range& input, const Range& second,
                 const Range& output);
  Range Weights(const Tensor& tensor) const;
  Range Cache(uint32_t layer, uint32_t half) const;
  void Upload();

  void RecordLayers(uint32_t position);
  void RecordAttention(const LayerOperations& layer, uint32_t position);
  void RecordMlp(const LayerOperations& layer);
  void RecordHead(uint32_t step, uint32_t position);
  void Record(const Operation& operation, const PushConstants& push = {});

  const Device& device_;
  const Model& model_;
  const Request request_;
  const bool keep_logits_;
  const uint32_t context_;

  const Kernels kernels_;
  Buffer weights_, cache_, activations_buffer_, tokens_, token_results_, logit_results_;
  Activations activations_;
  OwnedDescriptorPool descriptor_pool_;
  Operation embed_, final_norm_, logits_, softmax_, sample_;
  std::array<LayerOperations, kLayers> layers_;
  CommandStream stream_;  // Last: its destructor waits until nothing above is in use.
};

}  // namespace smeltr::demo
