package memlimit

import (
	"testing"
	"testing/fstest"
)

func TestAllowed(t *testing.T) {
	const machine = 1000
	v1 := "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
	v2 := "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
		by    string
	}{
		"no proc": {nil, machine, "the machine"},
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.service\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/unified/a.slice/b.service/memory.max": "300\n",
		}, 300, "the control group /a.slice/b.service"},
		"version 2, the parent's": {map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.service\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/unified/a.slice/b.service/memory.max": "max\n",
			"sys/fs/cgroup/unified/a.slice/memory.max":           "200\n",
		}, 200, "the control group /a.slice/b.service"},
		"version 2, high": {map[string]string{
			"proc/self/cgroup": "0::/b.service\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/unified/b.service/memory.max": "300\n", "sys/fs/cgroup/unified/b.service/memory.high": "250\n",
		}, 250, "the control group /b.service"},
		"version 1": {map[string]string{
			"proc/self/cgroup": "9:cpu,memory:/x\n0::/\n", "proc/self/mountinfo": v1 + v2,
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "400\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 400, "the control group /x"},
		"both": {map[string]string{
			"proc/self/cgroup": "9:memory:/x\n0::/y\n", "proc/self/mountinfo": v1 + v2,
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "400\n", "sys/fs/cgroup/unified/y/memory.max": "350\n",
		}, 350, "the control group /y"},
		"a container that sees its group as the root": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "31 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory.max": "100\n",
		}, 100, "the control group /"},
		"a mount of a part": {map[string]string{
			"proc/self/cgroup": "4:memory:/docker/1f\n", "proc/self/mountinfo": "30 25 0:26 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "120\n",
		}, 120, "the control group /docker/1f"},
		"more than the machine": {map[string]string{
			"proc/self/cgroup": "0::/b\n", "proc/self/mountinfo": v2, "sys/fs/cgroup/unified/b/memory.max": "2000\n",
		}, machine, "the machine"},
		"a folder with a space": {map[string]string{
			"proc/self/cgroup": "0::/b\n", "proc/self/mountinfo": "31 25 0:27 / /sys\\040fs rw - cgroup2 cgroup2 rw\n", "sys fs/b/memory.max": "70",
		}, 70, "the control group /b"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for file, text := range c.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if got, by := allowed(root, machine); got != c.want || by != c.by {
				t.Errorf("got %d by %s, want %d by %s", got, by, c.want, c.by)
			}
		})
	}
}
