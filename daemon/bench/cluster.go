package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// overCluster measures the filter call on one Redis and on clusters of three and six masters, all
// on this machine, with mirrors of the whole filter, of half of its size and of a tenth.
func overCluster(s settings) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("\ncluster: redis-server is not installed (Debian: redis-server redis-tools); left out")
		return nil
	}
	const capacity = 20_000_000 // 70.3 MB at the bench's error rate
	mirrors := []struct{ share, bytes string }{{"100 %", "0"}, {"50 %", "35200000"}, {"10 %", "7030000"}}
	t := report.Table{{"masters", "mirror", "duplicates", "1 connection", "4", "16"}}
	for _, masters := range []int{1, 3, 6} {
		cluster, err := startCluster(s, masters)
		if err != nil {
			return err
		}
		for _, mirror := range mirrors {
			samples := fmt.Sprintf("Cluster/masters=%d/mirror=%s", masters, strings.TrimSuffix(mirror.share, " %"))
			err := duplicates(s, cluster.addrs, mirror.bytes, samples, capacity, func(share int, rates []float64) {
				row := []string{fmt.Sprint(masters), mirror.share, fmt.Sprintf("%d %%", share)}
				for _, rate := range rates {
					row = append(row, report.Million(rate))
				}
				t.Row(row...)
			})
			if err != nil {
				cluster.stop()
				return err
			}
		}
		cluster.stop()
	}
	s.out.Table("cluster", "Client, daemon and all masters on this machine, batches of 1,000, items/s by connections; duplicates are of the batch before", t)
	return nil
}

// cluster is a number of masters; a single one is not a cluster of Redis.
type cluster struct {
	nodes []*exec.Cmd
	addrs []string
	dirs  []string
}

func startCluster(s settings, masters int) (c *cluster, err error) {
	c = &cluster{}
	started := c // c is nil when an error is returned
	defer func() {
		if err != nil {
			started.stop()
		}
	}()
	for i := range masters {
		dir := filepath.Join(s.dir, fmt.Sprintf("node-%d-%d", masters, i))
		if err := os.RemoveAll(dir); err != nil { // left by an interrupted run
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		args := []string{}
		if masters > 1 {
			args = append(args, "--cluster-enabled", "yes", "--cluster-node-timeout", "15000")
		}
		node, err := startRedisIn(dir, args...)
		if err != nil {
			return nil, err
		}
		c.nodes, c.dirs, c.addrs = append(c.nodes, node), append(c.dirs, dir), append(c.addrs, node.Args[len(node.Args)-1])
	}
	if masters == 1 {
		return c, nil
	}
	create := exec.Command("redis-cli", append([]string{"--cluster-yes", "--cluster", "create"}, c.addrs...)...)
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("redis-cli --cluster create: %w\n%s", err, out)
	}
	for _, addr := range c.addrs {
		client := redis.NewClient(&redis.Options{Addr: addr})
		info := ""
		for range 600 {
			if info, err = client.ClusterInfo(context.Background()).Result(); strings.Contains(info, "cluster_state:ok") {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		_ = client.Close()
		if !strings.Contains(info, "cluster_state:ok") {
			return nil, errors.Join(fmt.Errorf("the cluster of %d masters does not become whole: %q", masters, info), err)
		}
	}
	return c, nil
}

func (c *cluster) stop() {
	for i, node := range c.nodes {
		_ = node.Process.Kill()
		_ = node.Wait()
		_ = os.RemoveAll(c.dirs[i])
	}
}
