#include "levin/core/base/secrets.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "support/file_text.h"

using levin::names_secret;
using levin::without_secrets;
using levin::test::words_in;
using Words = std::vector<std::string>;

TEST_CASE("names of secrets are known, and names of a language's tokens and a table's keys are none") {
  for (const std::string& name :
       words_in("password --password data.password DB_PASSWORD dbPassword password2 client_secret WANDB_API_KEY apiKey APIKey "
                "aws_secret_access_key awsSecretAccessKey private-key token --data.hf_token LEVIN_DATA__TOKEN credentials "
                "Authorization db_pwd model.init_args.token+")) {
    INFO(name);
    CHECK(names_secret(name));
  }
  Words others = words_in(
      "key init_from.key max_tokens pad_token eos_token token_dim pad_token_id key_dim password_file "
      "secret_santa_ratio pass monkey PWD compass author data.token.length ${env:TOKEN} unk_token1");
  others.insert(others.end(), {"", "the password"});
  for (const std::string& name : others) {
    INFO(name);
    CHECK_FALSE(names_secret(name));
  }
}

TEST_CASE("what follows the name of a secret is masked in a text, however it is written") {
  const auto row = GENERATE(table<std::string, std::string>({
      {"configuration: run.yaml, --data.password=hunter2", "configuration: run.yaml, --data.password=***"},
      {"--password=\"hunter 2\" --lr=1", "--password=\"***\" --lr=1"},
      {"levin fit '--password=hunter 2' --lr=1", "levin fit '--password=***' --lr=1"},
      {"notes: WANDB_API_KEY=abc, and more", "notes: WANDB_API_KEY=*** and more"},
      {"--model={class_path: X, init_args: {password: hunter2, lr: 1}}",
       "--model={class_path: X, init_args: {password: ***, lr: 1}}"},
      {R"({"api_key": "a\"b", "lr": 1})", R"({"api_key": "***", "lr": 1})"},
      {"model:\n  password: hunter 2\n  lr: 1", "model:\n  password: ***\n  lr: 1"},
      {"https://me:secret@host/x http://token@b ssh://git@host s3://key:secret@bucket",
       "https://me:***@host/x http://***@b ssh://git@host s3://key:***@bucket"},
      {"redis://:p@ss@host:1", "redis://:***@host:1"},
      {"https://host/x?api_key=abc&page=2", "https://host/x?api_key=***&page=2"},
      {"https://host/x.csv?X-Amz-Credential=a&X-Amz-Signature=0f3 https://host/x?Signature=1&sig=b%3D&sv=2",
       "https://host/x.csv?X-Amz-Credential=***&X-Amz-Signature=*** https://host/x?Signature=***&sig=***&sv=2"},
      {"--password=1234 --token=1234", "--password=*** --token=1234"},
  }));
  CHECK(without_secrets(std::get<0>(row)) == std::get<1>(row));
  CHECK(without_secrets(std::get<1>(row)) == std::get<1>(row));
}

TEST_CASE("what is no secret stays as it is") {
  const std::string text =
      GENERATE("", "=", ":", "command line: --data.token: expected a string, found int 3", "the password: it is wrong",
               "--data.token=${env:HF_TOKEN}", "--password= --lr=1", "--use_token=true", "--password=null",
               "http://host:80/a@b", "a: b, key: c", "--pad_token='<pad>'", "sig=1", "signature: a4", "12:30:01 val_loss=0.25",
               "https://${env:USER_AND_PASSWORD}@host", "\"'`:=", "password",
               "password=", "{password:", "\"password\":", "a://", "a://@", "a://:@b", "'\":x");
  CHECK(without_secrets(text) == text);
}

TEST_CASE("a text shows that something in it was masked") {
  for (const char* text :
       {"--password=***", "{password: ***, lr: 1}", "https://me:***@host", "http://***@host", "a *** b=1 token=***"})
    CHECK(levin::has_mask(text));
  for (const char* text : {"", "***", "a=***", "--title=*** stars ***", "ssh://***@host", "--password=x"})
    CHECK_FALSE(levin::has_mask(text));
}

TEST_CASE("a command line is masked word by word, also where a value stands behind its option") {
  CHECK(without_secrets(Words{"levin", "fit", "--password", "hunter 2", "--token=a b", "--token", "--lr=1", "--api_key"}) ==
        Words{"levin", "fit", "--password", "***", "--token=***", "--token", "--lr=1", "--api_key"});
  CHECK(without_secrets(Words{"--uri=https://me:secret@host", "--model.notes=WANDB_API_KEY=abc", "-c", "a.yaml"}) ==
        Words{"--uri=https://me:***@host", "--model.notes=WANDB_API_KEY=***", "-c", "a.yaml"});
}
