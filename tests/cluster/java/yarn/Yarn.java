import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * Runs a YARN cluster of one node on loopback until standard input ends. Argument: the folder for the cluster's configuration files.
 * Prints a line when the cluster is ready.
 */
public class Yarn {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration configuration = new YarnConfiguration();
        configuration.set("fs.defaultFS", "file:///");
        configuration.set("yarn.resourcemanager.hostname", "127.0.0.1");
        configuration.set("yarn.resourcemanager.bind-host", "127.0.0.1");
        configuration.set("yarn.nodemanager.bind-host", "127.0.0.1");
        configuration.setInt("yarn.nodemanager.resource.memory-mb", 4096);
        configuration.setInt("yarn.nodemanager.resource.cpu-vcores", 4);
        configuration.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        configuration.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        // A disk that is 90 % full would make the node unusable.
        configuration.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
        configuration.set("yarn.scheduler.capacity.root.queues", "default");
        configuration.set("yarn.scheduler.capacity.root.default.capacity", "100");
        configuration.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", 1, 1, 1);
        cluster.init(configuration);
        cluster.start();
        try (var out = Files.newOutputStream(Path.of(arguments[0], "yarn-site.xml"))) {
            cluster.getConfig().writeXml(out);
        }
        Files.writeString(
            Path.of(arguments[0], "core-site.xml"),
            "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>");
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        cluster.stop();
        System.exit(0);
    }
}
