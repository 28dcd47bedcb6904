package chaos

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// netns is a daemon's own network: loopback, and a cable to the network of this process. Without
// the right to make one, the daemon is in the network of this process.
type netns struct {
	name  string
	cable string // its end in this process's network
	here  string // the address of that end
}

// newNetns makes the network of daemon i in the round with this seed.
func newNetns(seed uint64, i int) (*netns, error) {
	n := &netns{name: fmt.Sprintf("chaos-%d-%d", os.Getpid(), i), cable: fmt.Sprintf("ch%d-%d", os.Getpid(), i)}
	// 198.18.0.0/15 is for tests between networks (RFC 2544): nothing else uses it.
	net := fmt.Sprintf("198.18.%d.", (uint64(os.Getpid())+seed)%256)
	n.here = net + fmt.Sprint(4*i+1)
	for _, line := range []string{
		"netns add " + n.name,
		"-n " + n.name + " link set lo up",
		"link add " + n.cable + " type veth peer name redis netns " + n.name,
		"addr add " + n.here + "/30 dev " + n.cable,
		"link set " + n.cable + " up",
		"-n " + n.name + " addr add " + net + fmt.Sprint(4*i+2) + "/30 dev redis",
		"-n " + n.name + " link set redis up",
	} {
		if err := ip(line); err != nil {
			n.close()
			return nil, err
		}
	}
	return n, nil
}

func ip(line string) error {
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	return nil
}

// unplug disconnects the cable until plug: packets are lost, and TCP sends them again.
func (n *netns) unplug() error { return ip("link set " + n.cable + " down") }
func (n *netns) plug() error   { return ip("link set " + n.cable + " up") }

func (n *netns) close() { _ = ip("netns del " + n.name) }

// command runs a program in the network.
func (n *netns) command(program string, args ...string) *exec.Cmd {
	if n == nil {
		return exec.Command(program, args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", n.name, program}, args...)...)
}

// dial connects to an address in the network. A thread enters the network, and ends with its
// goroutine; a connection stays in the network in which it was made.
func (n *netns) dial(addr string) (conn net.Conn, err error) {
	var dialer net.Dialer
	if n == nil {
		return dialer.Dial("tcp", addr)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		var there *os.File
		if there, err = os.Open(filepath.Join("/run/netns", n.name)); err != nil {
			return
		}
		defer there.Close()
		if err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err == nil {
			conn, err = dialer.Dial("tcp", addr)
		}
	}()
	<-done
	return conn, err
}
