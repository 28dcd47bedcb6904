package mongodb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

func (s *Server) state(ctx context.Context, h host.Host) (host.Unit, error) {
	return host.LookAtUnit(ctx, h, s.unit())
}

// service enables and starts the server: MongoDB's packages do neither.
func (s *Server) service() step.Wish {
	return step.Running("mongodb: service", s.options.Unit, nil, func(ctx context.Context, h host.Host, verb string) error {
		if st, err := s.state(ctx, h); err != nil {
			return err
		} else if !st.Loaded {
			return fmt.Errorf("%s: there is no such unit\nhint: name that of the packages in mongodb.unit of the inventory", s.unit())
		}
		if s.options.Flavor == MongoDB { // as in port, which has no change where a port is as it should be
			if err := s.mayTake(ctx, h, true); err != nil {
				return err
			}
		}
		return s.systemctl(ctx, h, verb)
	})
}

// logs are the server's log files besides the journal.
const logs = "/var/log/mongodb/*.log"

// systemctl returns when the server accepts connections, or with an error from its log.
func (s *Server) systemctl(ctx context.Context, h host.Host, verb string) error {
	if err := host.Systemctl(ctx, h, verb, s.unit(), logs); err != nil {
		return err
	}
	if verb == "enable" {
		return nil
	}
	return s.listens(ctx, h)
}

// startWait is how long a server may take to listen: MongoDB recovers first.
const startWait = 2 * time.Minute

// listens waits until the server's address accepts connections. It tests this on the host itself,
// so it works where tunnels are forbidden.
func (s *Server) listens(ctx context.Context, h host.Host) error {
	address, port, _ := strings.Cut(strings.ReplaceAll(s.Address(true, ""), "]:", "] "), " ")
	if port == "" {
		i := strings.LastIndexByte(address, ':')
		address, port = address[:i], address[i+1:]
	}
	script := fmt.Sprintf("timeout 5 bash -c '</dev/tcp/%s/%s' 2>/dev/null", strings.Trim(address, "[]"), port)
	for begun := time.Now(); ; {
		out, err := h.Run(ctx, host.Command{Script: script, OK: []int{1, 124}, Watch: true})
		if err != nil || out.Code == 0 {
			return err
		}
		st, err := s.state(ctx, h)
		if err != nil {
			return err
		}
		waited := time.Since(begun)
		if !st.Active && waited > 5*time.Second || waited > startWait {
			return fmt.Errorf("%s does not listen at %s after %s%s", s.options.Unit, s.Address(true, ""), waited.Round(time.Second), host.UnitLog(ctx, h, s.unit(), logs))
		}
		if err := host.Sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

// ferretListens sets the address of FerretDB with a drop-in of its unit, before the server first
// starts, and makes it wait for the network with that address.
func (s *Server) ferretListens() step.Wish {
	content := `# Written by the urifilter toolkit, which rewrites it when it differs.
[Unit]
Wants=network-online.target
After=network-online.target

[Service]
` + s.ferretAddress() + `Restart=on-failure
RestartSec=3s
`
	return step.NewWish("mongodb: address", func(ctx context.Context, h host.Host) (*step.Change, error) {
		wish := host.File{Path: s.dropIn(), Content: content}
		now, _, err := host.ReadFile(ctx, h, wish.Path)
		if err != nil {
			return nil, err
		}
		if wish.Same(now) {
			return s.restartStale(ctx, h, wish.Path)
		}
		return &step.Change{Summary: "listen on " + s.Address(true, ""), Diff: diff.Unified(wish.Path, now.Content, wish.Content), Apply: func(ctx context.Context) error {
			if err := host.PutUnits(ctx, h, wish); err != nil {
				return err
			}
			if st, err := s.state(ctx, h); err != nil || !st.Active {
				return err
			}
			return s.systemctl(ctx, h, "restart")
		}}, nil
	})
}

// ferretWarning warns each time of what FerretDB lacks.
func (s *Server) ferretWarning() step.Proof {
	return step.NewProof("mongodb: who may call", func(ctx context.Context, _ host.Host) error {
		if len(s.options.Bind) > 0 && !s.encrypts() {
			step.Warn(ctx, "FerretDB asks for no password: anyone who can reach %s can read and change the archive; let the firewall admit only the filter hosts", s.Address(true, ""))
		}
		return nil
	})
}
