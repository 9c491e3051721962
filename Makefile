# The front door. Meson and ninja do the work; this makes sure that what they need is installed.
#
#   make build   leaves build/muster, which runs in place
#   make test    every suite              make demo    the main job on real input
#   make bench   the table of claims      make check   sanitizers and lint as well
#   make portable, make bundle, make wheel             programs for every Linux, in a folder, for pip
BUILD ?= build
PREFIX ?= /usr/local

.PHONY: all build test demo bench check check-all fmt install clean portable bundle wheel

all: build

$(BUILD)/build.ninja: meson.build meson_options.txt
	@tools/setup build
	@if [ -f $(BUILD)/build.ninja ]; then meson setup --reconfigure $(BUILD) --prefix $(PREFIX) >$(BUILD)/setup.log; \
	else mkdir -p $(BUILD) && meson setup $(BUILD) --prefix $(PREFIX) >$(BUILD)/setup.log || { cat $(BUILD)/setup.log; exit 1; }; fi

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -v >$(BUILD)/build.log 2>&1 || { grep -E -A12 'error|FAILED' $(BUILD)/build.log || tail -40 $(BUILD)/build.log; exit 1; }
	@echo "built $(BUILD)/muster"

test:
	@tools/setup build test
	@$(MAKE) --no-print-directory BUILD=$(BUILD) reconfigure-if-new build
	@tools/test $(BUILD)

demo:
	@tools/setup build demo
	@$(MAKE) --no-print-directory BUILD=$(BUILD) reconfigure-if-new build
	@tools/demo $(BUILD)

bench:
	@tools/setup build bench
	@$(MAKE) --no-print-directory BUILD=$(BUILD) build
	@bench/run $(BUILD)

# Packages that were installed since the folder was set up may turn parts on.
.PHONY: reconfigure-if-new
reconfigure-if-new:
	@if [ -f $(BUILD)/build.ninja ] && [ /var/lib/dpkg/status -nt $(BUILD)/build.ninja ]; then \
	meson setup --reconfigure $(BUILD) >$(BUILD)/setup.log; touch $(BUILD)/build.ninja; fi

check:
	@tools/check

check-all:
	@tools/check all

fmt:
	@tools/fmt

portable:
	@tools/portable

# The bundle's gpu/ is made of tests.
bundle:
	@tools/setup build test
	@$(MAKE) --no-print-directory BUILD=$(BUILD) reconfigure-if-new build portable
	@tools/bundle $(BUILD)

wheel: portable
	@tools/wheel

# A folder that is built already may have another prefix.
install: $(BUILD)/build.ninja
ifneq ($(origin PREFIX),file)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
endif
	@$(MAKE) --no-print-directory BUILD=$(BUILD) build
	@meson install -C $(BUILD)

clean:
	@rm -rf $(BUILD)
