//go:build linux

// Command escape enters the jail and then tries what its argument names. It prints the outcome, if
// it is still alive.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cr-clawer/urifilter/daemon/internal/download/script/jail"
)

var tries = map[string]func() error{
	"nothing": func() error { return nil },
	"threads": func() error { // more than existed before the jail
		done := make(chan bool)
		for range 20 {
			go func() {
				runtime.LockOSThread()
				time.Sleep(time.Millisecond)
				done <- true
			}()
		}
		for range 20 {
			<-done
		}
		runtime.GC()
		return nil
	},
	"shadow":   func() error { _, err := os.ReadFile("/etc/shadow"); return err },
	"openat2":  func() error { _, err := unix.Openat2(unix.AT_FDCWD, "/etc/shadow", &unix.OpenHow{}); return err },
	"oldopen":  func() error { return raw(unix.SYS_OPENAT, 0, pointer("/etc/passwd"), 0) },
	"write":    func() error { return os.WriteFile("/tmp/escaped", []byte("x"), 0o600) },
	"mkdir":    func() error { return os.Mkdir("/tmp/escaped", 0o700) },
	"proc":     func() error { _, err := os.ReadFile("/proc/self/environ"); return err },
	"exec":     func() error { return syscall.Exec("/bin/true", []string{"true"}, nil) },
	"fork":     func() error { return exec.Command("/bin/true").Run() },
	"rawfork":  func() error { return raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0) },
	"vfork":    func() error { return raw(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0) },
	"newuser":  func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"tcp":      func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err },
	"udp":      func() error { _, err := net.Dial("udp", "127.0.0.1:53"); return err },
	"unix":     func() error { _, err := net.Dial("unix", "/run/escape.sock"); return err },
	"rawsock":  func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, 1); return err },
	"pair":     func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"uring":    func() error { return raw(425, 8, pointer(strings.Repeat("\x00", 200)), 0) },
	"bpf":      func() error { return raw(unix.SYS_BPF, 0, 0, 0) },
	"ptrace":   func() error { return unix.PtraceAttach(os.Getppid()) },
	"readpeer": func() error { return raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid()), 0, 0) },
	"kill":     func() error { return unix.Kill(1, 0) },
	"tgkill":   func() error { return unix.Tgkill(1, 1, 0) },
	"pidfd":    func() error { _, err := unix.PidfdOpen(1, 0); return err },
	"setuid":   func() error { return unix.Setuid(0) },
	"mount":    func() error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") },
	"memfd":    func() error { _, err := unix.MemfdCreate("x", 0); return err },
	"rwx": func() error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		return err
	},
	"limits": func() error {
		return unix.Prlimit(0, unix.RLIMIT_DATA, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
	},
	"ioctl": func() error { return unix.IoctlSetInt(0, unix.TIOCSTI, 0) },
	"x32":   func() error { return raw(0x40000000+unix.SYS_GETPID, 0, 0, 0) },
	"inherited": func() error { // a descriptor that the caller left open
		var one [1]byte
		_, err := unix.Read(3, one[:])
		return err
	},
	"memory": func() error {
		var all [][]byte
		for i := range 64 {
			block := make([]byte, 16<<20)
			for at := 0; at < len(block); at += 4096 {
				block[at] = byte(i)
			}
			all = append(all, block)
		}
		return fmt.Errorf("%d blocks", len(all))
	},
	"shared": func() error { return mapped(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED) },
	"validate": func() error {
		return mapped(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED_VALIDATE)
	},
	"latershared": func() error { return mapped(unix.PROT_READ, unix.MAP_ANON|unix.MAP_SHARED) },
	"growsdown": func() error {
		return mapped(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_GROWSDOWN)
	},
	"readonly": func() error { // memory that is written, and then no longer counts as data
		for n := 0; ; n += len(zeroes) {
			block, err := unix.Mmap(-1, 0, len(zeroes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				return fmt.Errorf("%d MiB: %w", n>>20, err)
			}
			for at := 0; at < len(block); at += 4096 {
				block[at] = 1
			}
			if err := unix.Mprotect(block, unix.PROT_READ); err != nil {
				return err
			}
		}
	},
	"tables": func() error { return mapped(unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE) }, // page tables
	"cpu": func() error {
		for n := 0; ; n++ {
			if n < 0 {
				return nil
			}
		}
	},
}

var zeroes [16 << 20]byte

// mapped maps much more than the limit.
func mapped(protection, flags int) error {
	_, err := unix.Mmap(-1, 0, 2<<30, protection, flags)
	return err
}

func raw(number, a, b, c uintptr) error {
	_, _, e := syscall.RawSyscall(number, a, b, c)
	if e != 0 {
		return e
	}
	return nil
}

func pointer(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }

func main() {
	try := tries[os.Args[1]]
	limits := jail.Limits{Memory: 192 << 20, CPU: time.Minute} // to fill the memory takes seconds on a busy machine
	if os.Args[1] == "cpu" {
		limits.CPU = time.Second
	}
	if err := jail.Enter(limits); err != nil {
		fmt.Println("jail:", err)
		os.Exit(3)
	}
	fmt.Println("in")
	if err := try(); err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println("done")
}
