# SPDX-License-Identifier: BSD-2-Clause
# Builds, checks, tests and runs all of keelOS: one file, no recursion, sources found by folder.
#
#   make            hyp, the module, the programs          make check     static checks, unit tests
#   make run        boot it all, start two VMs, show it    make test      everything, also in the lab
#   make shell      the same, and leave you at root        make size      hyp's size against its budget
#   make soak-continuity N=12   root and device processes die under load, N times (lab/soak.py)
#   make bench-disk   keel-blk against qemu-storage-daemon and fio
#   make bench-net    frames between two VMs through the network engine, beside bare taps
#   make bench-compare  keelOS next to KVM in the lab, and the page; two hours, can be broken off and taken up
#   make setup      install what is missing (run and test do that first)
#
# Nobody edits this file to add a source file, a unit test, a fuzz target or a guest: folders are
# searched. A new program is one line in the table below.

# Program: its folders, and what it needs by pkg-config.
PROGRAMS      := keelvm keel keeld keel-blk bench-ring bench-net
keelvm_DIRS   := vmm engine
keelvm_PKGS   := liburing libcjson libseccomp
keel_DIRS     := cli config
keel_PKGS     := libcjson
keeld_DIRS    := keeld config
keeld_PKGS    := libcjson
keel-blk_DIRS := blkd engine
keel-blk_PKGS := liburing libseccomp
bench-ring_DIRS := bench/ring bench/lib
bench-ring_PKGS :=
bench-net_DIRS := bench/net bench/lib engine
bench-net_PKGS := liburing

B       := build
CC      := gcc
CLANG   := clang
PYTHON  := /usr/bin/python3
SHELL   := /bin/bash
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:

find = $(if $(wildcard $(1)),$(sort $(shell find $(wildcard $(1)) -name '$(2)')))

# ---- flags --------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Werror -Wconversion -Wshadow -Wcast-qual -Wundef -Wvla \
	-Wimplicit-fallthrough -Wmissing-prototypes -Wstrict-prototypes
WARN_CLANG := $(WARN) -Wconditional-uninitialized
BASE := -std=gnu17 -O2 -g -fno-common -I. -I$(B)/gen

# -fno-stack-protector: hyp has guard pages under its stacks and no per-CPU canary yet.
HYP_FLAGS := $(BASE) -ffreestanding -mno-red-zone -mgeneral-regs-only -fno-pic -mcmodel=kernel \
	-fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables \
	-fno-strict-aliasing
# -O2 and the include path only: a test may include the .c it tests, and has helpers of its own.
TEST_WARN := -Wall -Wextra -Werror -Wundef -Wvla -Wimplicit-fallthrough -Wno-unused-function
PKGS := $(sort $(foreach p,$(PROGRAMS),$($(p)_PKGS)))
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
USER_FLAGS := $(BASE) -D_GNU_SOURCE -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE -pthread \
	$(PKG_CFLAGS)
USER_LDFLAGS := -pie -pthread -Wl,-z,relro,-z,now
SAN_FLAGS := -std=gnu17 -O1 -g -fno-common -fno-omit-frame-pointer -D_GNU_SOURCE -DKEEL_HOST_TEST \
	-I. -I$(B)/gen $(PKG_CFLAGS) -pthread
SAN := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
DEP = -MMD -MP -MT $@ -MF $@.d

# ---- sources ------------------------------------------------------------------------------------

# lib/NAME_hyp.c is for hyp alone (memcpy and the like), lib/NAME_host.c for programs alone.
HYP_OFFSETS_C := $(call find,hyp,offsets.c)
# ORACLE=1, with a B of its own: pages and their owners are looked after (hyp/core/oracle.h).
HYP_C     := $(filter-out $(HYP_OFFSETS_C) hyp/core/oracle_$(if $(ORACLE),off,on).c,$(call find,hyp,*.c))
HYP_S     := $(call find,hyp,*.S)
LIB_C     := $(call find,lib,*.c)
LIB_HYP_C  := $(filter-out %_host.c,$(LIB_C))
LIB_USER_C := $(filter-out %_hyp.c,$(LIB_C))
USER_DIRS := $(sort $(foreach p,$(PROGRAMS),$($(p)_DIRS)))
USER_C    := $(call find,$(USER_DIRS),*.c)
HEADERS   := $(call find,abi hw lib hyp $(USER_DIRS),*.h)
UNIT_C    := $(call find,tests/unit,test_*.c)
FUZZ_C    := $(call find,tests/fuzz,fuzz_*.c)
GUEST_SRC := $(filter-out tests/guest/lib/% tests/guest/runner/%,$(call find,tests/guest,*.c) $(call find,tests/guest,*.S))
GUEST_RUN := $(call find,tests/guest/runner,*.c)
GUEST_LIB := $(call find,tests/guest/lib,*.c) $(call find,tests/guest/lib,*.S)
KMOD_SRC  := $(wildcard kmod/*.c kmod/*.h kmod/Kbuild) $(wildcard abi/*.h)

OFFSETS_H := $(patsubst %.c,$(B)/gen/%.h,$(HYP_OFFSETS_C))
HYP_O     := $(patsubst %,$(B)/hyp/%.o,$(HYP_C) $(HYP_S))
LIB_HYP_O := $(patsubst %,$(B)/hyp/%.o,$(LIB_HYP_C))
BUILT     := $(foreach p,$(PROGRAMS),$(if $(call find,$($(p)_DIRS),main.c),$(B)/bin/$(p)))
UNIT      := $(patsubst tests/unit/%.c,$(B)/unit/%,$(UNIT_C))
FUZZERS   := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ_C))
GUESTS    := $(patsubst tests/guest/%,$(B)/guest/%.elf,$(basename $(GUEST_SRC)))
HYP_ELF   := $(if $(wildcard hyp/x86/hyp.ld),$(B)/hyp.elf $(B)/hyp.elf32)
KMOD      := $(if $(wildcard kmod/Kbuild),$(B)/kmod/keel.ko $(B)/kmod/keel-backports.ko)
KMODTEST_C := $(filter-out %/common.c,$(wildcard tests/kmod/*.c))
KMODTEST  := $(patsubst tests/kmod/%.c,$(B)/kmodtest/%,$(KMODTEST_C)) \
	$(if $(KMODTEST_C),$(B)/kmodtest/keel_fake.ko $(B)/kmodtest/keel_fake-backports.ko)

# ---- what people type ---------------------------------------------------------------------------

.PHONY: all hyp programs kmod guests unit fuzzers setup check test run shell size clean format \
	build-clang headers bench-disk bench-net bench-compare soak-continuity
all: hyp programs kmod guests $(B)/faults/keelvm
hyp: $(HYP_ELF)
programs: $(BUILT)
kmod: $(KMOD) $(KMODTEST)
guests: $(GUESTS) $(if $(GUESTS),$(B)/guest/suite/list) $(if $(GUEST_RUN),$(B)/guest/keel-guest)
unit: $(UNIT) $(B)/instructions/blk
fuzzers: $(FUZZERS)

setup:
	@scripts/setup

check:
	@$(PYTHON) tests/run check unit

# Set-up may install what the parsing of this file asked for, hence a make of its own after it.
test: setup
	@$(PYTHON) tests/run check unit model fuzz guest system

run: setup
	@echo "building (only what has changed)"; $(MAKE) --no-print-directory -s -j$$(nproc) all
	@$(PYTHON) lab/run demo

shell: setup
	@echo "building (only what has changed)"; $(MAKE) --no-print-directory -s -j$$(nproc) all
	@$(PYTHON) lab/run shell --vms

# 1,000 for a release. It goes on where it was ended; SEED=2 is another sequence.
soak-continuity: setup
	@echo "building (only what has changed)"; $(MAKE) --no-print-directory -s -j$$(nproc) all
	@$(PYTHON) lab/run soak $(or $(N),12) --seed $(or $(SEED),1) $(SOAK_ARGS)

# What a question about disks costs: nothing else should run meanwhile.
bench-disk: $(B)/bin/keel-blk $(B)/bin/bench-ring $(B)/instructions/blk
	@$(PYTHON) bench/instructions.py
	@$(PYTHON) bench/disk.py $(BENCH_ARGS)
	@$(PYTHON) bench/kill.py

bench-net: $(B)/bin/bench-net
	@$(PYTHON) bench/net.py $(BENCH_ARGS)

# The page of what is measured so far; docs/compare.md says how it becomes a version of the history.
bench-compare: setup
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@$(PYTHON) bench/compare/run $(BENCH_ARGS)
	@$(PYTHON) bench/compare/page --runs $(B)/compare/runs --version now --date $$(date -u +%F) \
		--history $(B)/compare/history --out $(B)/compare/page \
		$(if $(wildcard $(B)/figures/disk.json),--native $(B)/figures/disk.json) \
		$(if $(wildcard $(B)/figures/net.json),--native-net $(B)/figures/net.json)

size: hyp
	@$(PYTHON) tests/checks/size.py --write

format:
	clang-format -i $(call find,abi hw lib hyp kmod tests switch bench $(USER_DIRS),*.[ch])

clean:
	rm -rf $(filter-out $(B)/lab,$(wildcard $(B)/*))

# ---- hyp ----------------------------------------------------------------------------------------

$(B)/hyp/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(HYP_FLAGS) $(WARN) $(DEP) -c -o $@ $<

$(B)/hyp/%.S.o: %.S $(OFFSETS_H) Makefile
	@mkdir -p $(@D)
	$(CC) $(HYP_FLAGS) -D__ASSEMBLY__ $(DEP) -c -o $@ $<

# offsets.c holds `#define OFFSET(sym, type, field)` lines that leave "->SYM $VALUE" in the assembly.
$(B)/gen/%offsets.h: %offsets.c Makefile
	@mkdir -p $(@D)
	$(CC) $(HYP_FLAGS) $(WARN) $(DEP) -S -o $@.s $<
	sed -n 's/^[[:space:]]*->\([A-Za-z0-9_]*\) [$$]*\(-\{0,1\}[0-9][0-9]*\).*/#define \1 \2/p' $@.s >$@

$(B)/hyp/lib.a: $(LIB_HYP_O)
	@rm -f $@
	ar rcs $@ $^

$(B)/hyp.elf: $(HYP_O) $(if $(LIB_HYP_O),$(B)/hyp/lib.a) $(wildcard hyp/x86/hyp.ld)
	$(CC) -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,max-page-size=4096 -Wl,-z,noexecstack \
		-Wl,--no-warn-rwx-segments -Wl,--fatal-warnings -Wl,-Map=$@.map -T hyp/x86/hyp.ld -o $@ \
		$(filter %.o %.a,$^)

# QEMU's Multiboot 1 loader refuses an ELF64.
$(B)/hyp.elf32: $(B)/hyp.elf
	objcopy -O elf32-i386 --strip-debug $< $@

# ---- programs -----------------------------------------------------------------------------------

$(B)/user/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(USER_FLAGS) $(WARN) $(DEP) -c -o $@ $<

$(B)/user/lib.a: $(patsubst %,$(B)/user/%.o,$(LIB_USER_C))
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^

define program_rule
$(B)/bin/$(1): $(patsubst %,$(B)/user/%.o,$(call find,$($(1)_DIRS),*.c)) $(B)/user/lib.a
	@mkdir -p $$(@D)
	$(CC) $(USER_LDFLAGS) -o $$@ $$^ $$(if $($(1)_PKGS),$$(shell pkg-config --libs $($(1)_PKGS)))
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

# The keelvm that kills itself between two stores, for tests alone (tests/faults).
FAULTS_O := $(patsubst %,$(B)/faults/obj/%.o,$(call find,$(keelvm_DIRS) tests/faults,*.c))
$(B)/faults/obj/%.c.o: %.c tests/faults/hook.h Makefile
	@mkdir -p $(@D)
	$(CC) $(USER_FLAGS) $(WARN) -include tests/faults/hook.h $(DEP) -c -o $@ $<

$(B)/faults/keelvm: $(FAULTS_O) $(B)/user/lib.a
	$(CC) $(USER_LDFLAGS) -o $@ $^ $(shell pkg-config --libs $(keelvm_PKGS))

# What bench/instructions.py runs under callgrind: the engine as it is built for use.
# blk.c and blk_queue.c are included by the first.
$(B)/instructions/blk: tests/instructions/blk.c $(wildcard engine/blk*.c engine/*.h hw/*.h tests/unit/engine/*.h) \
		engine/watch.c engine/vring.c engine/memtable.c engine/iov.c Makefile
	@mkdir -p $(@D)
	$(CC) $(USER_FLAGS) $(TEST_WARN) -o $@ $(filter-out engine/blk.c engine/blk_queue.c,$(filter %.c,$^)) -luring

# ---- the Linux module ---------------------------------------------------------------------------

# Built in a copy, since Kbuild writes beside its sources. KEEL_TOP is the include root.
$(B)/kmod/keel.ko: KERNEL = stable
$(B)/kmod/keel-backports.ko: KERNEL = backports
$(B)/kmod/keel.ko $(B)/kmod/keel-backports.ko: $(KMOD_SRC) Makefile
	@mkdir -p $(B)/kmod/$(KERNEL)
	cp -u $(filter kmod/%,$^) $(B)/kmod/$(KERNEL)/
	env -u MAKEFLAGS -u MFLAGS $(MAKE) --no-print-directory -j2 \
		-C /lib/modules/$$(cat $(B)/lab/debs/kernel-$(KERNEL))/build \
		M=$(CURDIR)/$(B)/kmod/$(KERNEL) KEEL_TOP=$(CURDIR) KCFLAGS='-I$(CURDIR) -Werror' modules \
		2>&1 | { grep -v '^Skipping BTF\|^  \(CC\|LD\|MODPOST\|BTF\)' || true; }; \
		exit $${PIPESTATUS[0]}
	cp $(B)/kmod/$(KERNEL)/keel.ko $@

# Its test programs, static since they run in root's initramfs, and the module on a hyp of the tests' own.
$(B)/kmodtest/%: tests/kmod/%.c tests/kmod/common.c tests/kmod/common.h tests/kmod/guest.h \
		$(wildcard abi/*.h) Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE) -D_GNU_SOURCE -pthread $(WARN) -static -s -o $@ $(filter %.c,$^) -luring

$(B)/kmodtest/keel_fake.ko: KERNEL = stable
$(B)/kmodtest/keel_fake.ko: FAKE = fake
$(B)/kmodtest/keel_fake-backports.ko: KERNEL = backports
$(B)/kmodtest/keel_fake-backports.ko: FAKE = fake-backports
$(B)/kmodtest/keel_fake.ko $(B)/kmodtest/keel_fake-backports.ko: $(KMOD_SRC) $(wildcard tests/kmod/fake/*) \
		tests/kmod/guest.h Makefile
	@mkdir -p $(@D)/$(FAKE)
	cp -u $(filter kmod/%.c kmod/%.h tests/kmod/fake/%,$^) $(@D)/$(FAKE)/
	env -u MAKEFLAGS -u MFLAGS $(MAKE) --no-print-directory -j2 \
		-C /lib/modules/$$(cat $(B)/lab/debs/kernel-$(KERNEL))/build \
		M=$(CURDIR)/$(@D)/$(FAKE) KEEL_TOP=$(CURDIR) KCFLAGS='-I$(CURDIR) -Werror' modules \
		2>&1 | { grep -v '^Skipping BTF\|^  \(CC\|LD\|MODPOST\|BTF\)' || true; }; \
		exit $${PIPESTATUS[0]}
	cp $(@D)/$(FAKE)/keel_fake.ko $@

# ---- tiny guests --------------------------------------------------------------------------------

GUEST_FLAGS := $(BASE) -ffreestanding -mno-red-zone -mgeneral-regs-only -fno-pic -fno-stack-protector \
	-fcf-protection=none -fno-asynchronous-unwind-tables
GUEST_LIB_O := $(patsubst %,$(B)/guest/obj/%.o,$(GUEST_LIB))

$(B)/guest/obj/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(GUEST_FLAGS) $(WARN) $(DEP) -c -o $@ $<

$(B)/guest/obj/%.S.o: %.S Makefile
	@mkdir -p $(@D)
	$(CC) $(GUEST_FLAGS) -D__ASSEMBLY__ $(DEP) -c -o $@ $<

GUEST_LINK = $(CC) -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,max-page-size=4096 \
	-Wl,-z,noexecstack -Wl,--no-warn-rwx-segments -T tests/guest/guest.ld -o $@ $(filter %.o,$^)
$(B)/guest/%.elf: $(B)/guest/obj/tests/guest/%.c.o $(GUEST_LIB_O) tests/guest/guest.ld
	$(GUEST_LINK)
	objcopy -O binary $@ $(@:.elf=.bin)
$(B)/guest/%.elf: $(B)/guest/obj/tests/guest/%.S.o $(GUEST_LIB_O) tests/guest/guest.ld
	$(GUEST_LINK)
	objcopy -O binary $@ $(@:.elf=.bin)

# Those that need no board, as Multiboot 1 images with their list, for lab/guest-suite.
GUEST_SUITE := $(sort $(shell sed -n 's/^[a-z0-9_]* *\([a-z0-9_]*\.mb\) .*/\1/p' tests/guest/list))
$(B)/guest/suite/list: tests/guest/list $(addprefix $(B)/guest/suite/,$(GUEST_SUITE))
	@cp $< $@
$(B)/guest/suite/%.mb: $(B)/guest/%.elf
	@mkdir -p $(@D)
	objcopy -O elf32-i386 --set-start=0x$$(nm $< | sed -n 's/ T guest_multiboot$$//p') $< $@

# Runs one of them in root, hence static: root's initramfs has few libraries.
$(B)/guest/keel-guest: $(GUEST_RUN) $(wildcard tests/guest/*.h tests/guest/runner/*.h abi/*.h) Makefile
	@mkdir -p $(@D)
	$(CC) $(BASE) -D_GNU_SOURCE $(WARN) -static -s -o $@ $(filter %.c,$^)

# ---- unit tests and fuzz targets ----------------------------------------------------------------

# Each names its other sources in a line `/* sources: A.c B.c */` and libraries in `/* libs: -lX */`.
$(B)/gen/tests.mk: $(UNIT_C) $(FUZZ_C) tests/checks/test_rules.py
	@mkdir -p $(@D)
	@$(PYTHON) tests/checks/test_rules.py $(B) $(UNIT_C) $(FUZZ_C) >$@
ifneq ($(UNIT_C)$(FUZZ_C),)
ifneq ($(filter-out clean setup format,$(or $(MAKECMDGOALS),all)),)
-include $(B)/gen/tests.mk
endif
endif

$(B)/san/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(TEST_WARN) $(SAN) $(DEP) -c -o $@ $<

$(UNIT):
	@mkdir -p $(@D)
	$(CC) $(SAN) -pthread -o $@ $(filter %.o,$^) $(LIBS) -lcmocka

$(B)/fuzzobj/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CLANG) $(SAN_FLAGS) $(TEST_WARN) $(FUZZ) $(DEP) -c -o $@ $<

$(FUZZERS):
	@mkdir -p $(@D)
	$(CLANG) -fsanitize=fuzzer,address,undefined -pthread -o $@ $(filter %.o,$^) $(LIBS)

# ---- the second compiler, and every header alone ------------------------------------------------

CLANG_O := $(patsubst %,$(B)/clang/hyp/%.o,$(HYP_C) $(LIB_HYP_C)) \
	$(patsubst %,$(B)/clang/user/%.o,$(USER_C) $(LIB_USER_C))
build-clang: $(CLANG_O)

$(B)/clang/hyp/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CLANG) $(HYP_FLAGS) $(WARN_CLANG) $(DEP) -c -o $@ $<

$(B)/clang/user/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(CLANG) $(USER_FLAGS) $(WARN_CLANG) $(DEP) -c -o $@ $<

headers: $(patsubst %,$(B)/headers/%.ok,$(HEADERS))
$(B)/headers/hyp/%.ok: FLAGS = $(HYP_FLAGS)
$(B)/headers/%.ok: FLAGS = $(USER_FLAGS)
$(B)/headers/%.ok: % Makefile
	@mkdir -p $(@D)
	echo '#include "$<"' | $(CC) $(FLAGS) $(WARN) $(DEP) -fsyntax-only -x c -
	echo '#include "$<"' | $(CLANG) $(FLAGS) $(WARN_CLANG) -fsyntax-only -x c -
	@touch $@

ifneq ($(wildcard $(B)),)
-include $(shell find $(B) -name '*.d' -not -path '$(B)/lab/*' -not -path '$(B)/kmod/*' 2>/dev/null)
endif
