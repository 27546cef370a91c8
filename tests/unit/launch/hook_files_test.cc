#include "launch/hook_files.h"

#include <sys/stat.h>

#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fake/scratch.h"
#include "util/file.h"

namespace smeltr::launch {
namespace {

using HookFilesTest = fake::ScratchTest;

std::span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST_F(HookFilesTest, UnpacksUnderTheHashOfTheContent) {
  const auto first = UnpackHook(scratch() / "lib", {Bytes("library"), Bytes("manifest")}).value();
  EXPECT_EQ(ReadFile(first.library).value(), "library");
  EXPECT_EQ(ReadFile(first.layer_directory / "smeltr.json").value(), "manifest");
  EXPECT_EQ(first.layer_directory, first.directory / "vulkan" / "implicit_layer.d");
  const auto again = UnpackHook(scratch() / "lib", {Bytes("library"), Bytes("manifest")}).value();
  EXPECT_EQ(again.directory, first.directory);
  EXPECT_NE(UnpackHook(scratch() / "lib", {Bytes("library"), Bytes("manifest2")})->directory,
            first.directory);
  EXPECT_NE(UnpackHook(scratch() / "lib", {Bytes("library2"), Bytes("manifest")})->directory,
            first.directory);
}

TEST_F(HookFilesTest, DamageIsRepaired) {
  const HookImages images{Bytes("library"), Bytes("manifest")};
  const auto files = UnpackHook(scratch() / "lib", images).value();
  ASSERT_TRUE(WriteFileAtomically(files.library, "lib", 0755, FileSync::kNone).has_value());
  ASSERT_TRUE(UnpackHook(scratch() / "lib", images).has_value());
  EXPECT_EQ(ReadFile(files.library).value(), "library");
  // A link of the right size behind it is not ours.
  ASSERT_TRUE(WriteFileAtomically(scratch() / "other", "LIBRARY", 0755, FileSync::kNone).has_value());
  std::filesystem::remove(files.library);
  std::filesystem::create_symlink(scratch() / "other", files.library);
  ASSERT_TRUE(UnpackHook(scratch() / "lib", images).has_value());
  EXPECT_EQ(ReadFile(files.library).value(), "library");
  EXPECT_EQ(ReadFile(scratch() / "other").value(), "LIBRARY");
}

TEST_F(HookFilesTest, ManyAtOnceAgree) {
  const std::string library(1 << 20, 'l');
  std::vector<std::thread> threads;
  std::vector<Result<HookFiles>> results(8, Fail(ErrorCode::kIo, ""));
  for (auto& result : results) {
    threads.emplace_back([&] { result = UnpackHook(scratch() / "lib", {Bytes(library), Bytes("m")}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result.has_value()) << result.error().text();
    EXPECT_EQ(ReadFile(result->library).value(), library);
  }
}

TEST_F(HookFilesTest, WhatIsBuiltInLooksRight) {
  const HookImages images = EmbeddedHook();
  ASSERT_GT(images.library.size(), 4U);
  EXPECT_EQ(std::memcmp(images.library.data(),
                        "\x7F"
                        "ELF",
                        4),
            0);
  const std::string_view manifest(reinterpret_cast<const char*>(images.layer_manifest.data()),
                                  images.layer_manifest.size());
  EXPECT_NE(manifest.find("VK_LAYER_SMELTR_record"), std::string_view::npos);
  // Relative to the manifest's directory, where UnpackHook puts the library.
  EXPECT_NE(manifest.find("\"../../libsmeltr_hook.so\""), std::string_view::npos);
}

}  // namespace
}  // namespace smeltr::launch
