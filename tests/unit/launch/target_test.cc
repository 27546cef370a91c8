#include "launch/target.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "fake/scratch.h"

namespace smeltr::launch {
namespace {

class TargetTest : public fake::ScratchTest {
 protected:
  std::string Write(const std::string& name, const std::string& content, mode_t mode = 0755) {
    const auto path = scratch() / name;
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), mode);
    return path.native();
  }
  // An ELF file with nothing but a header and, if there is a loader, the segment that names it.
  std::string WriteElf(const std::string& name, uint8_t elf_class, uint16_t machine,
                       const std::string& loader) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = elf_class;
    header.e_machine = machine;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = loader.empty() ? 0 : 1;
    Elf64_Phdr segment{};
    segment.p_type = PT_INTERP;
    segment.p_offset = sizeof(header) + sizeof(segment);
    segment.p_filesz = loader.size() + 1;
    std::string content(reinterpret_cast<const char*>(&header), sizeof(header));
    content.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
    return Write(name, content + loader + '\0');
  }
  static uint16_t OwnMachine() {
    Elf64_Ehdr header{};
    std::ifstream("/proc/self/exe").read(reinterpret_cast<char*>(&header), sizeof(header));
    return header.e_machine;
  }
};

TEST_F(TargetTest, SearchesPathInOrder) {
  std::filesystem::create_directory(scratch() / "one");
  std::filesystem::create_directory(scratch() / "two");
  Write("one/tool", "", 0644);
  const std::string good = Write("two/tool", "");
  const std::string path = (scratch() / "one").native() + ":" + (scratch() / "two").native();
  EXPECT_EQ(FindExecutable("tool", path).value(), good);
  EXPECT_EQ(FindExecutable("tool", (scratch() / "one").native()).error().code(), ErrorCode::kPermission);
  EXPECT_EQ(FindExecutable("other", path).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(FindExecutable("", path).error().code(), ErrorCode::kNotFound);
  // A directory of that name is no command.
  std::filesystem::create_directory(scratch() / "one" / "sub");
  EXPECT_EQ(FindExecutable("sub", path).error().code(), ErrorCode::kNotFound);
}

TEST_F(TargetTest, SlashMeansNoSearch) {
  const std::string good = Write("tool", "");
  EXPECT_EQ(FindExecutable(good, "").value(), good);
  EXPECT_EQ(FindExecutable("./tool", scratch().native()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(FindExecutable(Write("plain", "", 0600), "").error().code(), ErrorCode::kPermission);
  EXPECT_EQ(FindExecutable(scratch().native(), "").error().code(), ErrorCode::kPermission);
}

TEST_F(TargetTest, FollowsLinksAndScripts) {
  const std::string binary = WriteElf("binary", ELFCLASS64, OwnMachine(), "/lib/ld.so");
  const std::string script = Write("script", "#!" + binary + " -x\nbody");
  const std::string outer = Write("outer", "#! \t" + script + "\n");
  std::filesystem::create_symlink(outer, scratch() / "link");
  EXPECT_EQ(FollowToBinary((scratch() / "link").native(), ""), binary);
  EXPECT_EQ(FollowToBinary(Write("e1", "#!/usr/bin/env binary\n"), scratch().native()), binary);
  EXPECT_EQ(FollowToBinary(Write("e2", "#!/usr/bin/env -S A=1 binary -u\n"), scratch().native()), binary);
  EXPECT_EQ(FollowToBinary(Write("plain", "echo\n"), ""), (scratch() / "plain").native());
}

TEST_F(TargetTest, InterpretersInACircleEnd) {
  const std::string loop = (scratch() / "loop").native();
  Write("loop", "#!" + loop + "\n");
  EXPECT_EQ(FollowToBinary(loop, ""), loop);
}

TEST_F(TargetTest, Verdicts) {
  EXPECT_TRUE(JudgeBinary("/proc/self/exe").can_load);
  const uint16_t machine = OwnMachine();
  const auto reason = [](const std::string& file) { return JudgeBinary(file).reason; };
  const std::string fine = WriteElf("fine", ELFCLASS64, machine, "/lib64/ld-linux-x86-64.so.2");
  EXPECT_EQ(reason(fine), "");
  EXPECT_EQ(reason(WriteElf("static", ELFCLASS64, machine, "")),
            (scratch() / "static").native() + " is statically linked");
  EXPECT_EQ(reason(WriteElf("musl", ELFCLASS64, machine, "/lib/ld-musl-x86_64.so.1")),
            (scratch() / "musl").native() + " uses the musl C library");
  EXPECT_NE(reason(WriteElf("narrow", ELFCLASS32, machine, "")).find("another machine type"),
            std::string::npos);
  EXPECT_NE(reason(WriteElf("alien", ELFCLASS64, EM_S390, "/lib/ld.so")).find("another machine type"),
            std::string::npos);
  EXPECT_TRUE(JudgeBinary(Write("text", "echo")).can_load);
  EXPECT_FALSE(JudgeBinary((scratch() / "none").native()).can_load);
}

TEST_F(TargetTest, SetuidOfAnotherUser) {
  const std::string file = WriteElf("su", ELFCLASS64, OwnMachine(), "/lib/ld.so");
  if (::chown(file.c_str(), ::geteuid() + 1, ::getegid()) != 0) GTEST_SKIP() << "needs to give files away";
  ASSERT_EQ(::chmod(file.c_str(), 04755), 0);
  EXPECT_EQ(JudgeBinary(file).reason, file + " is setuid");
}

TEST_F(TargetTest, DamagedElfIsNotTrusted) {
  std::string content(64, '\xFF');
  content.replace(0, 5,
                  "\x7F"
                  "ELF\x02");
  EXPECT_FALSE(JudgeBinary(Write("damaged", content)).can_load);
  EXPECT_TRUE(JudgeBinary(Write("short",
                                "\x7F"
                                "ELF"))
                  .can_load);
}

}  // namespace
}  // namespace smeltr::launch
