// vkCreateInstance and vkDestroyInstance: the start of the chain, and of recording in this process.

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "hook/vulkan/hooks.h"
#include "hook/vulkan/poller.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr const char* kProperties2 = VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME;

VkLayerInstanceCreateInfo* FindLink(const VkInstanceCreateInfo& info) {
  // The loader's own struct, made to be changed by the layers.
  for (auto* next = static_cast<const VkLayerInstanceCreateInfo*>(info.pNext); next != nullptr;
       next = static_cast<const VkLayerInstanceCreateInfo*>(next->pNext)) {
    if (next->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO &&
        next->function == VK_LAYER_LINK_INFO) {
      return const_cast<VkLayerInstanceCreateInfo*>(next);
    }
  }
  return nullptr;
}

// Once a process: what must happen at fork and at exit.
void InstallProcessHandlers() {
  static constinit std::atomic<bool> installed{false};
  if (installed.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, &ResetLocksAfterFork);
  std::atexit([] {
    if (Active()) Poller::StopAllAtExit();
  });
}

void NameApplication(Instance& instance, const VkApplicationInfo* application) {
  if (application == nullptr) return;
  instance.api_version = application->apiVersion != 0 ? application->apiVersion : VK_API_VERSION_1_0;
  const char* name = application->pApplicationName != nullptr ? application->pApplicationName : "";
  const char* engine = application->pEngineName != nullptr ? application->pEngineName : "";
  const char* between = *name != 0 && *engine != 0 ? ", " : "";
  std::snprintf(instance.application, sizeof(instance.application), "%s%s%s", name, between, engine);
}

// A 1.0 program cannot be asked for features and memory budgets without that extension.
bool WantsProperties2(const VkInstanceCreateInfo& info, uint32_t api_version) {
  if (api_version >= VK_API_VERSION_1_1) return false;
  for (uint32_t i = 0; i < info.enabledExtensionCount; ++i) {
    if (std::strcmp(info.ppEnabledExtensionNames[i], kProperties2) == 0) return false;
  }
  return true;
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info,
                                              const VkAllocationCallbacks* allocator, VkInstance* handle) {
  VkLayerInstanceCreateInfo* link = FindLink(*info);
  if (link == nullptr || link->u.pLayerInfo == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(VK_NULL_HANDLE, "vkCreateInstance"));
  auto* instance = new (std::nothrow) Instance;
  if (create == nullptr || instance == nullptr) {
    delete instance;
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  instance->passthrough = !EnsureStarted();
  NameApplication(*instance, info->pApplicationInfo);

  VkLayerInstanceLink* next_link = link->u.pLayerInfo->pNext;
  link->u.pLayerInfo = next_link;
  VkResult result = VK_ERROR_EXTENSION_NOT_PRESENT;
  if (!instance->passthrough) {
    InstallProcessHandlers();
    if (WantsProperties2(*info, instance->api_version)) {
      std::vector<const char*> extensions(info->ppEnabledExtensionNames,
                                          info->ppEnabledExtensionNames + info->enabledExtensionCount);
      extensions.push_back(kProperties2);
      VkInstanceCreateInfo extended = *info;
      extended.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
      extended.ppEnabledExtensionNames = extensions.data();
      result = create(&extended, allocator, handle);
      instance->hide_properties2 = result == VK_SUCCESS;
      link->u.pLayerInfo = next_link;  // The layers below have moved it.
    }
  }
  if (result != VK_SUCCESS) result = create(info, allocator, handle);
  if (result != VK_SUCCESS) {
    delete instance;
    return result;
  }
  instance->handle = *handle;
  instance->next.Load(*handle, instance->api_version, next);
  delete Instances().Insert(DispatchKey(*handle), instance);
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance handle, const VkAllocationCallbacks* allocator) {
  if (handle == VK_NULL_HANDLE) return;
  Instance* instance = Instances().Remove(DispatchKey(handle));
  if (instance == nullptr) return;
  instance->next.DestroyInstance(handle, allocator);
  delete instance;
}

}  // namespace smeltr::hook::vulkan
