package testserver

import (
	"fmt"
	"os/exec"
	"runtime"
)

// Program builds the program of a main package into path, without cgo, as releases are; args are
// flags of the build, and the package. Unlike go build, go run caches what it has linked besides
// what it has compiled: of all tests that want a program, one links it, and the others copy it.
func Program(path string, args ...string) error {
	command := append(append([]string{"run", "-exec=cp"}, args...), path)
	if runtime.GOOS == "windows" { // it has no cp
		command = append([]string{"build", "-o", path}, args...)
	}
	cmd := exec.Command("go", command...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	return nil
}
