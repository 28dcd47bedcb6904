package systemd

import (
	"time"
)

// RevertService and RevertTimer are the units by which a host goes back to what ran before, when nobody
// confirms what was started last. They exist only until then.
func (p Program) RevertService() string { return p.Name + "-revert.service" }
func (p Program) RevertTimer() string   { return p.Name + "-revert.timer" }

// RevertDir is the folder of what those units need.
func (p Program) RevertDir() string { return p.Root() + "/revert" }

// RevertScript is what the service runs.
func (p Program) RevertScript() string { return p.RevertDir() + "/script" }

// RenderRevert returns these units, service and timer. The timer asks for the first time after that long.
func RenderRevert(of Program, after time.Duration) ([]File, error) {
	if err := of.Validate(); err != nil {
		return nil, err
	}
	v := struct {
		Program
		Service, Script string
		Seconds         int
	}{of, of.RevertService(), of.RevertScript(), max(5, int(after.Seconds()))}
	service, err := render("revert.service", of.RevertService(), v)
	if err != nil {
		return nil, err
	}
	timer, err := render("revert.timer", of.RevertTimer(), v)
	return []File{service, timer}, err
}
