// tokens[offset] = the most probable token, the lowest one among equals. One workgroup.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(set = 0, binding = 0) readonly buffer Probabilities { float probability[]; };
layout(set = 0, binding = 2) writeonly buffer Tokens { uint tokens[]; };

shared float best_value[64];
shared uint best_index[64];

void main() {
  uint lane = gl_LocalInvocationID.x;
  float value = -1.0;
  uint index = lane;
  for (uint i = lane; i < push.count; i += 64) {
    if (probability[i] > value) {
      value = probability[i];
      index = i;
    }
  }
  best_value[lane] = value;
  best_index[lane] = index;
  barrier();
  for (uint width = 32; width > 0; width >>= 1) {
    if (lane < width) {
      float other = best_value[lane + width];
      bool better = other > best_value[lane] ||
                    (other == best_value[lane] && best_index[lane + width] < best_index[lane]);
      if (better) {
        best_value[lane] = other;
        best_index[lane] = best_index[lane + width];
      }
    }
    barrier();
  }
  if (lane == 0) tokens[push.offset] = best_index[0];
}
