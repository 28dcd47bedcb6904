package bloom

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The assembly for arm64, and what all processors but amd64 do without assembly, pass the same tests and vectors on an
// emulated processor.
func TestSystemAnotherProcessor(t *testing.T) {
	if os.Getenv("URIFILTER_TEST_EMULATED") != "" || testing.Short() {
		t.Skip("this is the emulated run, or a quick one")
	}
	if runtime.GOARCH == "arm64" {
		return // the tests themselves ran on it
	}
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("qemu-aarch64 is not installed (Debian: qemu-user)")
	}
	bin := filepath.Join(t.TempDir(), "bloom.test")
	build := exec.Command("go", "test", "-vet=off", "-c", "-o", bin, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for arm64: %v\n%s", err, out)
	}
	run := exec.Command(emulator, bin, "-test.short", "-test.skip=^TestSystem")
	run.Env = append(os.Environ(), "URIFILTER_TEST_EMULATED=1")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("on arm64: %v\n%s", err, out)
	}
}
