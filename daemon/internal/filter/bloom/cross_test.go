package bloom

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The assembly for arm64 and the code without assembly (riscv64) pass the same tests and
// vectors on an emulated processor.
func TestSystemOtherProcessors(t *testing.T) {
	if os.Getenv("URIFILTER_TEST_EMULATED") != "" || testing.Short() {
		t.Skip("this is the emulated run, or a quick one")
	}
	for arch, emulator := range map[string]string{"arm64": "qemu-aarch64", "riscv64": "qemu-riscv64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			if runtime.GOARCH == arch {
				return // the tests themselves ran on it
			}
			path, err := exec.LookPath(emulator)
			if err != nil {
				t.Skipf("%s is not installed (Debian: qemu-user)", emulator)
			}
			bin := filepath.Join(t.TempDir(), "bloom.test")
			build := exec.Command("go", "test", "-c", "-o", bin, ".")
			build.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build for %s: %v\n%s", arch, err, out)
			}
			run := exec.Command(path, bin, "-test.short", "-test.skip=^TestSystem")
			run.Env = append(os.Environ(), "URIFILTER_TEST_EMULATED=1")
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("on %s: %v\n%s", arch, err, out)
			}
		})
	}
}
