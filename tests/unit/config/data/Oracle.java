package org.apache.kafka.connect.mirror;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.util.*;
import java.util.regex.*;
import java.nio.charset.StandardCharsets;
public class Oracle {
  static ObjectMapper M = new ObjectMapper();
  static Map<String,Object> sorted(Map<String,?> m){ TreeMap<String,Object> t=new TreeMap<>(); for (var e: m.entrySet()) t.put(e.getKey(), e.getValue()==null?null:String.valueOf(e.getValue())); return t; }
  static Map<String,String> load(String text) throws Exception { Properties p=new Properties(); p.load(new ByteArrayInputStream(text.getBytes(StandardCharsets.ISO_8859_1))); Map<String,String> m=new HashMap<>(); for (String k: p.stringPropertyNames()) m.put(k,p.getProperty(k)); return m; }
  static String err(Throwable e){ return e.getClass().getSimpleName()+": "+e.getMessage(); }
  public static void main(String[] a) throws Exception {
    JsonNode in = M.readTree(new File(a[0]));
    Map<String,Object> out = new LinkedHashMap<>();
    List<Object> props = new ArrayList<>();
    for (JsonNode n : in.get("properties")) { try { props.add(sorted(load(n.asText()))); } catch (IllegalArgumentException e) { props.add(null); } }
    out.put("properties", props);
    List<Object> rx = new ArrayList<>();
    for (JsonNode n : in.get("regex")) {
      try { Pattern p = Pattern.compile(n.get(0).asText()); List<Boolean> r=new ArrayList<>(); for (JsonNode s: n.get(1)) r.add(p.matcher(s.asText()).matches()); rx.add(r);} catch (PatternSyntaxException e) { rx.add(e.getDescription()); } }
    out.put("regex", rx);
    List<Object> pol = new ArrayList<>();
    for (JsonNode n : in.get("policy")) {
      Map<String,String> cfg = M.convertValue(n.get("config"), Map.class);
      ReplicationPolicy p = n.get("identity").asBoolean()? new IdentityReplicationPolicy(): new DefaultReplicationPolicy();
      ((org.apache.kafka.common.Configurable)p).configure(cfg);
      Map<String,Object> res=new LinkedHashMap<>();
      res.put("offset_syncs", p.offsetSyncsTopic("A")); res.put("checkpoints", p.checkpointsTopic("A")); res.put("heartbeats", p.heartbeatsTopic());
      Map<String,Object> byName=new LinkedHashMap<>();
      for (JsonNode t: n.get("names")) { String s=t.asText(); 
        List<Object> row=new ArrayList<>(); row.add(p.formatRemoteTopic("A",s)); row.add(p.topicSource(s)); row.add(p.upstreamTopic(s)); row.add(p.originalTopic(s)); row.add(p.isHeartbeatsTopic(s)); row.add(p.isCheckpointsTopic(s)); row.add(p.isMM2InternalTopic(s)); row.add(p.isInternalTopic(s)); byName.put(s,row); }
      res.put("names", byName); pol.add(res);
    }
    out.put("policy", pol);
    List<Object> cf = new ArrayList<>();
    for (JsonNode n : in.get("configs")) {
      Map<String,Object> res=new LinkedHashMap<>();
      try {
        MirrorMakerConfig c = new MirrorMakerConfig(load(n.asText()));
        List<Object> pairs=new ArrayList<>();
        Map<String,Object> flows=new LinkedHashMap<>();
        for (SourceAndTarget st: c.clusterPairs()) {
          String nm=st.source()+"->"+st.target(); pairs.add(nm);
          Map<String,Object> f=new LinkedHashMap<>();
          Map<String,String> w=c.workerConfig(st); f.put("worker", sorted(w));
          Map<String,String> conn=c.connectorBaseConfig(st, MirrorSourceConnector.class); f.put("connector", sorted(conn));
          try {
            MirrorSourceConfig sc=new MirrorSourceConfig(conn);
            f.put("consumer", sorted(sc.sourceConsumerConfig("replication-consumer")));
            f.put("offset_syncs_producer", sorted(sc.offsetSyncsTopicProducerConfig()));
            f.put("source_admin", sorted(sc.sourceAdminConfig("x"))); f.put("target_admin", sorted(sc.targetAdminConfig("x")));
            f.put("offset_syncs_topic", sc.offsetSyncsTopic());
            f.put("enabled", sc.enabled());
            f.put("topics", sc.getList("topics"));
            MirrorCheckpointConfig cc=new MirrorCheckpointConfig(c.connectorBaseConfig(st, MirrorCheckpointConnector.class));
            f.put("offset_syncs_consumer", sorted(cc.offsetSyncsTopicConsumerConfig()));
            f.put("checkpoints_consumer", sorted(cc.targetConsumerConfig("checkpoints-target-consumer")));
            f.put("groups", cc.getList("groups"));
            f.put("checkpoints_topic", cc.checkpointsTopic());
            MirrorHeartbeatConfig hc=new MirrorHeartbeatConfig(c.connectorBaseConfig(st, MirrorHeartbeatConnector.class));
            f.put("emits_heartbeats", hc.getBoolean("emit.heartbeats.enabled"));
          } catch (Exception e) { f.put("error", err(e)); }
          flows.put(nm,f);
        }
        Collections.sort((List)pairs); res.put("pairs",pairs); res.put("flows",flows);
      } catch (Exception e) { res.put("error", err(e)); }
      cf.add(res);
    }
    out.put("configs", cf);
    M.writerWithDefaultPrettyPrinter().writeValue(new File(a[1]), out);
  }
}
